#!/usr/bin/env bash
# On a machine with a GPU: install the packed Python package, then its tests for a GPU and the examples.
# usage: tools/gpu/python.sh FOLDER RESULTS, after tools/gpu/pack_python.sh FOLDER. Exit status 1 if a test failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
folder=$(cd "${1:?}" && pwd)
results=${2:?}
mkdir -p "$results"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
# Libraries that such a machine lacks, liburing for one.
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi -L
python3 - <<'PYTHON'
import importlib.metadata, sys
print("python", sys.version.split()[0], *(f"{name} {importlib.metadata.version(name)}" for name in (
    "numba-cuda", "numba", "cuda-bindings", "cupy-cuda13x", "numpy", "nvidia-cuda-nvrtc", "nvidia-nvjitlink")
    if any(importlib.metadata.distributions(name=name))))
PYTHON
pip=(python3 -m pip install -q --no-index --no-deps --no-compile --disable-pip-version-check --target "$site")
installed=""
for wheel in "$folder"/wheels/*.whl; do
  [ -z "$installed" ] && "${pip[@]}" "$wheel" >"$results/pip.log" 2>&1 && installed=$wheel
done
if [ -z "$installed" ]; then
  echo "python: no packed wheel fits; building the extension here"
  "${pip[@]}" --no-build-isolation --config-settings "cmake.define.TANADA_PREBUILT=$folder/prefix" . >"$results/pip.log" 2>&1 ||
    {
      tail -20 "$results/pip.log"
      exit 1
    }
  installed=source
fi
echo "python: installed from $installed"
if ! python3 -c 'import numpy; numpy.row_stack' 2>/dev/null; then
  "${pip[@]}" "$folder"/needs/*.whl && echo "python: numba-cuda gets its own NumPy"
fi
failed=0
# The pool's daemon is $folder/bin/tanada-poold.
TANADA_SITE=$site TANADA_BUILD=$folder timeout 400 python3 -m pytest -q -rs -p no:cacheprovider \
  --junitxml="$results/python.xml" \
  tests/e2e/python/test_gpu.py tests/e2e/python/test_kernel_code.py tests/e2e/python/test_pool_gpu.py >"$results/python.log" 2>&1 || failed=1
tail -60 "$results/python.log"
for example in numba_read cupy_read; do
  PYTHONPATH=$site timeout 100 python3 examples/python/$example.py /dev/shm >"$results/$example.log" 2>&1 || failed=1
  echo "---- $example"
  tail -12 "$results/$example.log"
done
exit $failed
