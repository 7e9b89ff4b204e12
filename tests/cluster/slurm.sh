#!/usr/bin/env bash
# tests/cluster/slurm.sh COMMAND ..: a SLURM of one node on the loopback interface while a command runs, which finds it by
# the variable SLURM_CONF. Keys, sockets, states and logs are in a temporary folder; nothing else is changed, but for
# packages that are missing. Whatever ends the command, daemons and jobs end with it. There are four partitions:
#   main    its jobs are queued again when one of "high" needs their place
#   warned  as main, but they are told some seconds before
#   lost    its jobs are cancelled then
#   high    needs their place
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
PACKAGES="slurmctld slurmd slurm-client munge"

main() {
  require_programs
  folder=$(mktemp -d "${TMPDIR:-/tmp}/trajens-slurm-XXXXXX")
  export SLURM_CONF=$folder/slurm.conf
  trap down EXIT
  trap 'exit 130' INT TERM HUP
  up
  setpriv --pdeathsig TERM "$@" &
  # A shell that waits for what is in the background answers signals at once.
  command=$!
  wait $command
}

require_programs() {
  # One by one: `command -v` of several succeeds if one of them is there.
  missing() {
    for program in slurmctld slurmd sbatch munged setpriv; do command -v $program >/dev/null || return 0; done
    return 1
  }
  if missing && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $PACKAGES >/dev/null
  fi
  if missing || [ "$(id -u)" != 0 ]; then
    echo "make cluster needs Linux, root, and the packages $PACKAGES (apt-get install $PACKAGES)." >&2
    exit 2
  fi
}

up() {
  local host controller node
  host=$(hostname -s)
  read -r controller node < <(free_ports)
  mkdir "$folder"/{munge,state,spool,log}
  chmod 755 "$folder"
  cat >"$SLURM_CONF" <<CONF
ClusterName=trajens
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmdPort=$node
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/munge
# A job that is queued again waits for as long as credentials last: two minutes, if nothing is said.
AuthInfo=socket=$folder/munge/socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
# Without cgroups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=3,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE PriorityTier=1
PartitionName=warned Nodes=$host MaxTime=INFINITE PriorityTier=1 GraceTime=20
PartitionName=lost Nodes=$host MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL
PartitionName=high Nodes=$host MaxTime=INFINITE PriorityTier=10
CONF
  (umask 077 && head -c 1024 /dev/urandom >"$folder/munge/key")
  daemon munged --foreground --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
    --pid-file="$folder/munge/pid" --log-file="$folder/log/munged.log" --seed-file="$folder/munge/seed"
  daemon slurmctld -D
  daemon slurmd -D
  for _ in $(seq 60); do
    if [ "$(sinfo -h -o %T 2>/dev/null | head -1)" = idle ]; then return; fi
    sleep 0.5
  done
  tail -n 20 "$folder"/log/* >&2
  echo "SLURM did not come up within half a minute; see above." >&2
  exit 1
}

# Two ports that nobody listens on.
free_ports() {
  local port found=()
  for port in $(seq 16817 16917); do
    if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then found+=("$port"); fi
    if [ "${#found[@]}" = 2 ]; then echo "${found[@]}"; return; fi
  done
  echo "there must be two free ports from 16817 to 16917, got fewer." >&2
  exit 1
}

# In the background, and killed by the kernel when this script is.
daemons=()
daemon() {
  setpriv --pdeathsig KILL "$@" >>"$folder/log/$1.out" 2>&1 &
  daemons=("$!" "${daemons[@]}")
}

down() {
  local code=$? pid
  trap - EXIT
  trap '' INT TERM HUP
  if [ -n "${command:-}" ]; then kill "$command" 2>/dev/null && wait "$command" || true; fi
  scancel --user=root 2>/dev/null || true
  for _ in $(seq 30); do
    if [ -z "$(squeue -h 2>/dev/null)" ]; then break; fi
    sleep 0.5
  done
  for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
  # What is left of jobs that did not end in time knows this folder.
  for pid in $(ours); do
    echo "process $pid was left behind, and killed: $(tr '\0' ' ' <"/proc/$pid/cmdline")" >&2
    kill -KILL "$pid" || true
    code=1
  done
  if [ "$code" = 1 ] && [ -d "$folder/log" ]; then tail -n 15 "$folder"/log/slurm*.log >&2; fi
  rm -rf "$folder"
  exit "$code"
}

ours() {
  local file
  for file in /proc/[0-9]*/environ; do
    if grep -qzxF "SLURM_CONF=$SLURM_CONF" "$file" 2>/dev/null; then
      file=${file#/proc/}
      if [ "${file%/environ}" != $$ ]; then echo "${file%/environ}"; fi
    fi
  done
}

main "$@"
