#!/usr/bin/env bash
# Runs the source of the CUDA kernel on the host, thread by thread in random order, with matrix instructions by their
# definition, and compares with the network in double precision. usage: run.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cp main.cc mma.cuh check.py "$work"
cp ../../src/trajens/kernels/csrc/{cnn,cnn_layers}.cuh ../../src/trajens/kernels/csrc/cnn_shape.h "$work"
for terms in 1 2; do
  g++ -O2 -std=c++17 -DTERMS=$terms -shared -fPIC -o "$work/emulated$terms.so" "$work/main.cc"
done
cd "$work" && "$1" check.py
