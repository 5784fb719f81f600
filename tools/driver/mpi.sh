#!/usr/bin/env bash
# In a guest: run programs of MPI over libo2g-fi.so and the driver, with four ranks. They are compiled already.
# usage: tools/driver/mpi.sh FOLDER     FOLDER has the programs; build/dev/lib has the provider
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
folder=$1
# Open MPI refuses to run on a host without a name.
hostname guest && ip link set lo up || exit
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_PROVIDER_PATH=$PWD/build/dev/lib TND_LOG=info
options=(--oversubscribe --bind-to none --mca plm isolated --mca pml cm --mca mtl ofi --mca btl "ofi,self"
  --mca mtl_ofi_provider_include o2g --mca btl_ofi_provider_include o2g)
failed=0
for program in "$folder"/*; do
  output=$(timeout 240 mpirun.openmpi -n 4 "${options[@]}" "$program" 2>&1) || {
    echo "$program: status $?"
    failed=1
  }
  echo "$output"
  # The driver has received messages.
  grep -qE '[1-9][0-9]* by the driver' <<<"$output" || failed=1
done
exit $failed
