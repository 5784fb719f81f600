# Programs of C and OpenSHMEM, compiled with pkg-config and oshcc.
# shellcheck shell=sh disable=SC2154
install libtanada-dev tanada-poold tanada-tools libtanada-pmix openmpi-bin gcc libc6-dev pkg-config
# shellcheck disable=SC2046  # the flags are words
gcc -Wall -Werror examples/pool/snapshot.c -o snapshot $(pkg-config --cflags --libs tanada)
start_daemon tanada-poold 64MiB # sets daemon and number
./snapshot "pool://127.0.0.1:$number/runs/field" | grep '8388608 bytes are back'
kill "$daemon"
wait "$daemon"
# Open MPI's commands of these names are in /usr/bin.
PATH=/usr/lib/tanada/bin:$PATH
oshcc -O2 examples/shmem/ring.c -o ring
./ring
oshrun -n 2 ./ring
oshmem_info
tanada-oshcc --showme:link
ls /usr/share/man/man3/tnd_pool_commit.3*
echo "compiled and ran a client of the pool and a program of OpenSHMEM"
