#!/usr/bin/env bash
# The operations and messages of comex beside the ARMCIs that tools/gpu/pack_comex.sh gathered, on a machine of many processors.
# usage: tools/gpu/comex.sh FOLDER RESULTS [option of bench/comex/comex.py ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath "${1:?usage: tools/gpu/comex.sh FOLDER RESULTS [OPTION...]}")
results=${2:?}
shift 2
options=()
for each in "$folder"/rivals/*; do options+=("--$(basename "$each")" "$each"); done
python3 bench/comex/comex.py --ours "$folder/ours" --programs "$folder/programs" --rows operations,messages "${options[@]}" --json "$results/comex.json" "$@"
