#!/bin/sh
# The tests on every pair of Python and JAX that can be installed, one after the other, and a table of how they went.
# Usage: tests/release/matrix.sh "PYTHON .." "JAX .." [ARGUMENT OF PYTEST ..]
#   tests/release/matrix.sh "python3.11 python3.13" "0.10 0.12" tests/kernels/test_cpu.py
# Without arguments of pytest it is what `make test` runs, but for its checks of style. Environments and logs are kept
# below $MATRIX, by default build/matrix. $JOBS tests run at once. With uv on the path it installs faster.
set -u
pythons=$1
jaxes=$2
shift 2
cd "$(dirname "$0")/../.."
folder=${MATRIX:-build/matrix}
mkdir -p "$folder"
table="$folder/table.txt"
: >"$table"
failed=0

for python in $pythons; do
  version=$("$python" -c 'import platform; print(platform.python_version())') || {
    printf '%-10s %-8s %s\n' "$python" - "not here" >>"$table"
    continue
  }
  for jax in $jaxes; do
    pair="$folder/python-$version-jax-$jax"
    say() { printf '%-10s %-8s %s\n' "$version" "$jax" "$1" | tee -a "$table"; }
    rm -rf "$pair"
    "$python" -m venv "$pair"
    install() {
      if command -v uv >/dev/null; then
        uv pip install --quiet --python "$pair/bin/python" "$@" "jax==$jax.*"
      else
        "$pair/bin/python" -m pip install --quiet "$@" "jax==$jax.*"
      fi >>"$pair/install.log" 2>&1
    }
    # By itself first: that a version is not offered for this Python is no failure of ours.
    if ! install; then
      grep -Eq 'No (matching distribution|solution)' "$pair/install.log" || failed=1
      say "JAX cannot be installed, see $pair/install.log"
      continue
    fi
    # Not editable: tests import what users install, kernel included.
    if ! install ".[test]" ./paper; then
      failed=1
      say "trajens cannot be installed, see $pair/install.log"
      continue
    fi
    # Environments of gymnax are not to be had for every version of JAX; their tests are skipped where it is missing.
    without=""
    install ".[rl]" || without=", without gymnax"
    exact=$("$pair/bin/python" -c 'import jax; print(jax.__version__)')
    "$pair/bin/python" -m pytest -p no:cacheprovider -n "${JOBS:-2}" --dist worksteal \
      -m "not slow and not long and not browser and not cluster" "$@" >"$pair/tests.log" 2>&1 || {
      failed=1
      tail -n 200 "$pair/tests.log"
    }
    say "JAX $exact$without: $(tail -n 1 "$pair/tests.log")"
  done
done
echo
cat "$table"
exit $failed
