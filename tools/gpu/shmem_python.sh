#!/usr/bin/env bash
# On a machine with GPUs, CuPy, Numba and Open MPI, and what tools/gpu/pack_shmem_python.sh gathered: arrays of CuPy and Numba
# over the device heap, and shmem4py's calls on it. usage: tools/gpu/shmem_python.sh FOLDER RESULTS    PES: how many (2)
# Exit status 1 if a step failed. Well under a minute.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
usage="usage: tools/gpu/shmem_python.sh FOLDER RESULTS"
folder=$(cd "${1:?$usage}" && pwd)
results=${2:?$usage}
mkdir -p "$results"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TND_PLUGIN_PATH=$folder/lib
export TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
nvidia-smi -L
pip=(python3 -m pip install -q --no-index --no-deps --no-compile --disable-pip-version-check --target "$site")
installed=""
for wheel in "$folder"/wheels/*.whl; do
  [ -z "$installed" ] && "${pip[@]}" "$wheel" >"$results/pip.log" 2>&1 && installed=$wheel
done
if [ -z "$installed" ]; then
  "${pip[@]}" --no-build-isolation --config-settings "cmake.define.TANADA_PREBUILT=$folder/prefix" . >"$results/pip.log" 2>&1 ||
    {
      tail -20 "$results/pip.log"
      exit 1
    }
fi
cp -r "$folder/shmem4py/shmem4py" "$site/"
python3 -c 'import _cffi_backend' 2>/dev/null || "${pip[@]}" --find-links "$folder/cffi" cffi pycparser || exit 1
python3 -c 'import numpy; numpy.row_stack' 2>/dev/null || "${pip[@]}" "$folder"/needs/*.whl || true
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
failed=0
step() { # step NAME PROGRAM [ARGUMENT ...]
  local name=$1
  shift
  if timeout -k 2 60 "$folder/bin/oshrun" --quiet -n "${PES:-2}" python3 "$@" >"$results/$name.log" 2>&1; then
    echo "$name: passed"
    grep '^PE ' "$results/$name.log" || true
  else
    failed=1
    echo "$name: FAILED"
    tail -25 "$results/$name.log"
  fi
}
for name in cupy_arrays numba_arrays late_kernel cupy_streams; do step $name tests/e2e/python/shmem_arrays_gpu.py $name; done
for name in calls words before by_hand left streams; do step $name tests/e2e/python/shmem_arrays.py $name; done
step example examples/python/shmem_halo.py
exit $failed
