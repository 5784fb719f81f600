#!/usr/bin/env bash
# Install a CUDA compiler from NVIDIA's Python wheels into .venv-cuda, unless it is installed, and
# print the path of nvcc.
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
  # The metapackage pins matching versions. nvidia-cuda-nvcc on its own pulls packages of the newest
  # release.
  make_environment .venv-cuda "cuda-toolkit[nvcc,cudart,cccl,nvrtc]==$version.*"
fi
toolkit=$(echo "$PWD"/.venv-cuda/lib/python3*/site-packages/nvidia/cu13)
if [ ! -f "$stamp" ]; then
  # nvcc, CMake's FindCUDAToolkit and -dlto search for these under other names.
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
