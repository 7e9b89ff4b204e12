#!/bin/sh
# Builds the sdist, and from it, as users without a wheel do, the wheel of this platform and the one without kernels.
# Installs each wheel into a bare environment and tries it there, with no compiler on the path.
# Usage: tests/release/wheel.sh PYTHON, whose environment has `build`; what it makes is in dist/.
set -eu
python=$1
cd "$(dirname "$0")/../.."
rm -rf dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m build --sdist --outdir dist .
tar -xzf dist/trajens-*.tar.gz -C "$work"
# Wheels are for the CPUs of everyone, and for CUDA whoever has a compiler of the version of his driver builds his own.
"$python" -m build --wheel --outdir dist -C cmake.define.TRAJENS_CUDA=OFF "$work"/trajens-*
"$python" -m build --wheel --outdir dist -C wheel.cmake=false "$work"/trajens-*

try() { # WHEEL kernel|pure
  "$python" -m venv "$work/$2"
  "$work/$2/bin/python" -m pip install --quiet --disable-pip-version-check "$1"
  # Nothing is on the path but the environment and what runs any shell script.
  mkdir -p "$work/path"
  for tool in sh env uname; do ln -sf "$(command -v $tool)" "$work/path/$tool"; done
  (cd "$work" && PATH="$work/$2/bin:$work/path" && export PATH &&
    for tool in cc c++ gcc g++ clang cmake ninja nvcc; do
      if command -v "$tool" >/dev/null; then echo "$tool is on the path"; exit 1; fi
    done && trajens info && python "$OLDPWD/tests/release/smoke.py" "$2")
}
try dist/trajens-*-py3-none-any.whl pure
try "$(ls dist/trajens-*-py3-none-*.whl | grep -v none-any)" kernel
ls -l dist
