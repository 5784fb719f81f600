#!/usr/bin/env bash
# A CUDA compiler out of NVIDIA's Python wheels, in .venv-cuda; prints the path of nvcc. Quick when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
# The headers of 13.0 and 13.1 clash with glibc 2.42 (rsqrt is noexcept there); 13.2 does not.
version=13.0
if [ "$(printf '%s\n' 2.42 "$glibc" | sort -V | head -1)" = 2.42 ]; then version=13.2; fi

stamp=.venv-cuda/made-of-$version
if [ ! -f "$stamp" ]; then
  echo "setup: fetching the CUDA $version compiler as Python wheels into .venv-cuda" >&2
  . tools/environment.sh
  # The metapackage pins its companions: nvidia-cuda-nvcc alone pulls those of the newest release.
  make_environment .venv-cuda "cuda-toolkit[nvcc,cudart,cccl,nvrtc]==$version.*"
fi
toolkit=$(echo "$PWD"/.venv-cuda/lib/python3*/site-packages/nvidia/cu13)
if [ ! -f "$stamp" ]; then
  # What nvcc, CMake's FindCUDAToolkit and -dlto look for under other names.
  [ -e "$toolkit/lib64" ] || ln -s lib "$toolkit/lib64"
  [ -e "$toolkit/lib/libcudart.so" ] || ln -s libcudart.so.13 "$toolkit/lib/libcudart.so"
  mkdir -p "$toolkit/nvvm/lib64"
  for name in libnvvm.so libnvvm.so.4; do
    [ -e "$toolkit/nvvm/lib64/$name" ] || ln -s ../../lib/libnvvm.so.4 "$toolkit/nvvm/lib64/$name"
  done
  "$toolkit/bin/nvcc" --version >/dev/null
  touch "$stamp"
fi
echo "$toolkit/bin/nvcc"
