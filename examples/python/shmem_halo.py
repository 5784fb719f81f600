"""Heat in a rod, distributed over the PEs, each part in its device's memory.
usage: oshrun -n 2 python3 shmem_halo.py [STEPS]

Needs shmem4py, built with Tanada's oshcc. With CuPy and a GPU it computes there; without a GPU the
same lines run with NumPy.
"""

# %% OpenSHMEM with a device heap, then shmem4py, which uses it.
import sys

import numpy as np

import tanada.shmem as device

device.init()  # the current GPU, else the one with this PE's number on its node
from shmem4py import shmem  # noqa: E402

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
me, count, size = shmem.my_pe(), shmem.n_pes(), 1000

# %% Symmetric arrays: this PE's part with a cell of each neighbour at its ends, and a counter of
# the cells received.
rod = device.array(np.zeros(size + 2))
arrived = device.zeros(1, "u8")
if device.kind() is device.Kind.CUDA:
    import cupy as xp

    device_name = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"].decode()
    cells, wait = (
        xp.asarray(rod),
        lambda: xp.cuda.get_current_stream().synchronize(),
    )  # the same memory
else:
    xp, cells, wait = np, rod, lambda: None
    device_name = "host executor"
if me == 0:
    print(f"device: {device_name}", file=sys.stderr)

# %% Each step: send the cells at the ends to the neighbours, then compute. Both ends of the rod are
# kept at 1 and 0.
came = device.signal(arrived)
expected = 0
if me == 0:
    cells[0] = 1
for _step in range(steps):
    wait()  # calls of the host are not ordered with any stream
    if me > 0:
        shmem.put_signal(rod[size + 1 :], rod[1:2], me - 1, came, 1, shmem.SIGNAL.ADD)
    if me < count - 1:
        shmem.put_signal(rod[:1], rod[size : size + 1], me + 1, came, 1, shmem.SIGNAL.ADD)
    expected += (me > 0) + (me < count - 1)
    shmem.signal_wait_until(came, shmem.CMP.GE, expected)
    cells[1:-1] += 0.25 * (cells[:-2] - 2 * cells[1:-1] + cells[2:])
    wait()
    shmem.barrier_all()  # no PE's cells change while others compute with them

# %% Compare only with NumPy: every PE computes the whole rod.
whole = np.zeros(size * count + 2)
whole[0] = 1
for _step in range(steps):
    whole[1:-1] += 0.25 * (whole[:-2] - 2 * whole[1:-1] + whole[2:])
here = np.empty(size + 2)
shmem.get(here, rod, me)
assert np.allclose(here[1:-1], whole[1 + me * size : 1 + (me + 1) * size], atol=1e-12)
print(
    f"PE {me} of {count}, {device.kind().name}: the heat is what NumPy alone says, {here[1]:.4f} at its left end"
)
device.free(arrived)
device.free(rod)
