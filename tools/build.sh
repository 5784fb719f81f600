#!/usr/bin/env bash
# Configure and build one preset. usage: tools/build.sh PRESET [task of tools/setup.sh ...]
# `make help` describes CUDA=auto|1|0. With TARGET="name ..." only these targets are built. INSTALL_PREFIX is
# the prefix of an installation.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
tools/setup.sh "$@"

find_nvcc() {
  local place
  for place in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if [ -n "$place" ] && [ -x "$place" ]; then
      echo "$place"
      return
    fi
  done
}

cuda() {
  local nvcc
  case $preset in asan | tsan | clang | fuzz) return ;; esac
  case ${CUDA:-auto} in
    0)
      echo -DTANADA_CUDA=OFF
      return
      ;;
    1)
      nvcc=$(find_nvcc)
      [ -n "$nvcc" ] || nvcc=$(tools/setup-cuda.sh)
      echo -DTANADA_CUDA=ON
      ;;
    auto)
      nvcc=$(find_nvcc)
      [ "$preset" = cuda ] || echo -DTANADA_CUDA=AUTO
      ;;
    *)
      echo "CUDA=$CUDA is none of auto, 1, 0" >&2
      exit 2
      ;;
  esac
  [ -n "$nvcc" ] || return 0
  echo -DCMAKE_CUDA_COMPILER="$nvcc"
  # Programs that run here are built for the GPU of this machine, those of other presets for every
  # GPU.
  case $preset in
    dev | cuda)
      if nvidia-smi -L >/dev/null 2>&1; then
        echo -DCMAKE_CUDA_ARCHITECTURES=native
      else
        echo -DCMAKE_CUDA_ARCHITECTURES=90
        echo -DTANADA_GPU_PROGRAMS=OFF
      fi
      ;;
  esac
}

# One option a line, since the name of the compiler's folder may contain blanks.
listed=$(cuda)
options=()
[ -z "$listed" ] || mapfile -t options <<<"$listed"
[ -z "${INSTALL_PREFIX:-}" ] || options+=("-DCMAKE_INSTALL_PREFIX=$INSTALL_PREFIX")
# The first build of a preset for tests compiles sources together and omits most benchmarks. An
# existing build folder keeps its options.
if [ ! -f "build/$preset/CMakeCache.txt" ]; then
  case $preset in
    dev) options+=(-DTANADA_UNITY=ON -DTANADA_TESTED_ONLY=ON -DTANADA_BENCH=TESTED) ;;
    cuda) options+=(-DTANADA_UNITY=ON -DTANADA_BENCH=TESTED) ;;
    asan | tsan) options+=(-DTANADA_UNITY=ON) ;;
  esac
fi
log=build/$preset-configure.log
mkdir -p build
# The output of a successful configuration is not printed.
if ! cmake --preset "$preset" "${options[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
sed -n 's/^-- \(CUDA: .*\)/build: \1/p' "$log"
read -ra targets <<<"${TARGET:-all}"
cmake --build "build/$preset" --parallel "$(nproc)" --target "${targets[@]}"
