# shellcheck shell=bash
# What scripts for several GPUs share: the environment of the programs, and parts. The script that
# sources this after parts.sh sets $folder, $pes and $end, the end of the programs' names.
# shellcheck disable=SC2154

rivals
export LD_LIBRARY_PATH=$folder/lib:$nvshmem${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TND_PLUGIN_PATH=$folder/lib TND_CUDA_PLUGIN=$folder/lib/libtanada_cuda.so
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
small=()
if [ -n "$end" ]; then
  nvidia-smi -L
  nvidia-smi topo -m 2>/dev/null | head -12
else
  small=(--end "" --small)
fi
echo "$(nproc) processors; $(free -g | awk 'NR == 2 { print $2 }') GiB; $(df -h /dev/shm | tail -1)"

# The benchmark ends itself before the part's limit, so that its rows so far are not lost.
shmemg_part() { # shmemg_part NAME LIMIT_S OPTIONS...
  local name=$1 most=$2
  shift 2
  part "$name" "$most" shmemg_within "$work/files/$name.json" "$@"
}
shmemg_within() { # shmemg_within FILE OPTIONS...
  local file=$1
  shift
  # shellcheck disable=SC2153  # part() sets LIMIT
  exec bench/shmemg/shmemg.py "$folder" --pes "$pes" --nccl "$nccl" --timeout 40 \
    --limit $((LIMIT - 6)) --json "$file" "${small[@]}" "$@"
}

# NVIDIA's performance tests of NVSHMEM in FOLDER/perftests: bin and lib of ours and theirs, and
# their arguments (bench/shmemg/perftests.py).
perftests_part() { # perftests_part LIMIT_S
  part perftests "$1" perftests_within
}
perftests_within() {
  local tests=$folder/perftests
  [ -d "$tests" ] || {
    echo "perftests: left out, they were not packed"
    return
  }
  exec bench/shmemg/perftests.py "$tests/ours" "$tests/theirs" "$tests/arguments" --pes "$pes" \
    --timeout 25 --limit $((LIMIT - 6)) --json "$work/files/perftests.json"
}

gfile_part() { # gfile_part LIMIT_S
  local size=(--size 4096)
  [ -n "$end" ] || size=(--size 16)
  part gfile_devices "$1" "$folder/bin/bench_gfile$end" --only devices --devices "$pes" \
    "${size[@]}" --json "$work/files/gfile_devices.json"
}

# Programs with kernels that compare all results.
kernel_tests() { # kernel_tests LIMIT_S_OF_ONE
  local code=0 rc name start
  for name in transfers private atomics waits collectives teams stream_order streams; do
    start=$SECONDS
    if [ ! -e "$folder/bin/shmemg_$name$end" ]; then
      echo "shmemg_$name: left out, it was not packed"
      continue
    fi
    timeout -k 2 "$1" "$folder/bin/oshrun" --quiet -n "$pes" "$folder/bin/shmemg_$name$end" \
      >"$work/files/shmemg_$name.log" 2>&1
    rc=$?
    [ $rc = 0 ] || code=1
    outcome=$([ $rc = 0 ] && echo passed || echo "FAILED ($rc)")
    echo "shmemg_$name: $outcome after $((SECONDS - start)) s"
  done
  return $code
}

# Snapshots of FDTD by one PE and by all, 9.2 GB in 2,000 steps.
fdtd_part() { # fdtd_part LIMIT_S
  part fdtd_pes "$1" fdtd_within
}
fdtd_within() {
  local words=(--size 226 --steps 2000 --rounds 2)
  [ -n "$end" ] || words=(--end "" --size 32 --steps 20 --rounds 1)
  exec bench/fdtd/several_pes.py "$folder" --pes "1,$pes" "${words[@]}" --limit $((LIMIT - 6)) \
    --json "$work/files/fdtd_pes.json"
}

# The order of signals and data in kernels, for so many rounds; on a stream a hundredth of them.
litmus() { # litmus ROUNDS
  "$folder/bin/oshrun" --quiet -n "$pes" "$folder/bin/shmemg_waits$end" "$1" &&
    "$folder/bin/oshrun" --quiet -n "$pes" "$folder/bin/shmemg_stream_order$end" $(($1 / 100))
}
