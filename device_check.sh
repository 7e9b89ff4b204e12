#!/usr/bin/env bash
# Builds, tests, times and checks the CUDA kernel on the device machine; a table is printed last.
set -uo pipefail
cd "$(dirname "$0")"
export PYTHONPATH=$PWD/src PYTHONUNBUFFERED=1 TRAJENS_CACHE=/tmp/trajens-cache
log=/tmp/trajens-log; mkdir -p "$log"
begin=$(date +%s); since() { echo "[$(($(date +%s) - begin)) s] $*"; }
src=src/trajens/kernels/csrc
variants="2,4,10 2,4,5 2,4,2 1,3,10 1,3,5 1,4,10 1,4,5"  # terms, blocks an SM, tiles unrolled
nvidia-smi --query-gpu=name,clocks.sm,clocks.max.sm,driver_version --format=csv,noheader

# All builds side by side: the library by CMake, the kernel alone in every variant.
(rm -rf build/device
 cmake -S . -B build/device -GNinja -DPython_EXECUTABLE="$(command -v python3)" -DTRAJENS_CUDA_ARCHITECTURES=90 \
   -DCMAKE_CUDA_FLAGS="-Xptxas -v" && cmake --build build/device) >"$log/cmake" 2>&1 &
cmake_job=$!
jobs_list=()
for v in $variants; do
  IFS=, read -r terms blocks unroll <<<"$v"
  nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -Xptxas -v -I$src -DTRAJENS_TERMS=$terms \
    -DTRAJENS_BLOCKS=$blocks -DTRAJENS_UNROLL=$unroll -o "/tmp/alone_$v" device/kernel_alone.cu >"$log/nvcc_$v" 2>&1 &
  jobs_list+=($!)
done
for terms in 1 2; do
  nvcc -O3 -std=c++17 -lineinfo -gencode arch=compute_90,code=sm_90 -I$src -DTRAJENS_TERMS=$terms \
    -o /tmp/alone_lines_$terms device/kernel_alone.cu >"$log/nvcc_lines_$terms" 2>&1 &
  jobs_list+=($!)
done
wait $cmake_job || { since "CMake build failed"; tail -30 "$log/cmake"; }
wait "${jobs_list[@]}"
grep -hE "registers|spill" "$log/cmake"
since "built: $(ls -la src/trajens/kernels/*.so | awk '{print $5, $9}' | tr '\n' ' ')"
ldd src/trajens/kernels/trajens_cuda.so | grep -i cuda && echo "the library depends on a CUDA library, it should not"

for v in 2,4,10 1,3,10; do
  timeout 40 /tmp/alone_$v >"$log/first" 2>&1; since "kernel alone $v, first run: rc $?"; cat "$log/first"
done

timeout 150 python3 -m pytest -q -p no:cacheprovider -rs --tb=short tests/test_cuda_kernel.py >"$log/pytest" 2>&1
since "GPU tests: rc $?"; tail -c 2500 "$log/pytest"

for tool in memcheck racecheck; do
  for terms in 2 1; do
    timeout 60 compute-sanitizer --tool $tool /tmp/alone_lines_$terms small >"$log/$tool$terms" 2>&1
    since "$tool, $terms terms: rc $?"; tail -n 4 "$log/$tool$terms" | cut -c1-150
  done
done

timeout 60 python3 device/rates.py >"$log/rates" 2>&1; since "rates: rc $?"
TRAJENS_CUDA_PRECISION=half timeout 60 python3 device/rates.py >"$log/rates_half" 2>&1; since "rates, half: rc $?"
for v in $variants; do timeout 30 "/tmp/alone_$v" >"$log/alone_$v" 2>&1; done

for v in 2,4,10 1,3,10; do
timeout 30 ncu --clock-control none -k regex:LossesOfPairs -s 60 -c 1 --metrics \
gpu__time_duration.sum,sm__inst_executed_pipe_tensor.sum,sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active,\
sm__inst_executed_pipe_alu.sum,sm__inst_executed.sum,sm__cycles_active.avg,\
l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed,\
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum,\
smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_wait_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio,\
smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio \
  /tmp/alone_$v ncu >"$log/ncu_$v" 2>&1
since "ncu $v: rc $?"; grep -E "__|Error|error" "$log/ncu_$v" | head -36 | cut -c1-110
done

echo; echo "== through JAX"; tail -n 8 "$log/rates"; tail -n 8 "$log/rates_half"
for v in $variants; do
  echo "== kernel alone, $v (terms, blocks an SM, tiles unrolled): $(grep -hoE 'Used [0-9]+ registers' "$log/nvcc_$v") $(grep -hoE '[0-9]+ bytes spill loads' "$log/nvcc_$v")"
  cut -c1-75 "$log/alone_$v"
done
[ -n "${OUT:-}" ] && tar -czf "$OUT/log.tgz" -C "$log" .
since done
