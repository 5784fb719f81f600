"""Kernels of Numba read a file, sum it and write the sums to another.
usage: numba_read.py [URLPREFIX [ELEMENTS]]

URLPREFIX is in any store that this process can reach, /tmp by default. The file itself is created
here, on the local disk or, for another store, by a kernel. Needs a GPU and numba-cuda.
"""

# %% Requirements.
import pathlib
import sys

import numpy as np
from numba import cuda

import tanada
from tanada.numba import block, g_creat, g_rdonly, g_trunc, g_wronly, url

prefix = sys.argv[1] if len(sys.argv) > 1 else "/tmp"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 16 << 20
blocks, threads, chunk = 64, 256, 4096  # elements that a block reads at a time
print(f"device: {cuda.get_current_device().name}", file=sys.stderr)


# %% The kernels. Every thread of a block makes each call, with equal arguments; the first status that is not 0 is kept.
@cuda.jit
def write_whole(files, name, source, status):
    opened = block.gopen(files, name, g_wronly | g_creat | g_trunc)
    code = opened.status
    if code == 0:
        code = block.gwrite(files, opened.fd, source, 0, source.nbytes).status
        closed = block.gclose(files, opened.fd)
        code = code if code != 0 else closed
    if cuda.threadIdx.x == 0 and code != 0:
        cuda.atomic.cas(status, 0, 0, code)


@cuda.jit
def sum_file(files, name, sums, status):
    numbers = cuda.shared.array(4096, np.float32)
    partial = cuda.shared.array(256, np.float64)
    opened = block.gopen(files, name, g_rdonly)
    code = opened.status
    mine = 0.0
    if code == 0:
        size = block.gfstat(files, opened.fd).size
        offset = cuda.blockIdx.x * numbers.nbytes
        while offset < size and code == 0:
            done = block.gread(
                files, opened.fd, numbers, offset, min(numbers.nbytes, size - offset)
            )
            code = done.status
            for i in range(cuda.threadIdx.x, done.size // 4, cuda.blockDim.x):
                mine += numbers[i]
            cuda.syncthreads()  # all threads have read before the next gread overwrites
            offset += cuda.gridDim.x * numbers.nbytes
        closed = block.gclose(files, opened.fd)
        code = code if code != 0 else closed
    partial[cuda.threadIdx.x] = mine
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = 0.0
        for i in range(cuda.blockDim.x):
            total += partial[i]
        sums[cuda.blockIdx.x] = total
        if code != 0:
            cuda.atomic.cas(status, 0, 0, code)


# %% A file of numbers whose sum is exact in 64 bits.
numbers = (np.arange(count) % 1024).astype(np.float32)
source, result = f"{prefix}/tanada_numba.f32", f"{prefix}/tanada_numba.f64"

with tanada.gfile.session(page_size="256KiB", device_tier_size="256MiB") as files:
    status = cuda.to_device(np.zeros(1, np.int32))
    sums = cuda.to_device(np.zeros(blocks, np.float64))
    if "://" in prefix:
        write_whole[1, threads](files.ref, url(source), cuda.to_device(numbers), status)
    else:
        numbers.tofile(source)

    # %% Read it from 64 blocks, twice: the second time from device memory.
    for _ in range(2):
        sum_file[blocks, threads](files.ref, url(source), sums, status)
        files.wait(30)
        tanada.check(status.copy_to_host()[0])
    total = sums.copy_to_host().sum()

    # %% The sums are written to a file by gwrite; gclose publishes it.
    write_whole[1, threads](files.ref, url(result), sums, status)
    files.wait(30)
    tanada.check(status.copy_to_host()[0])

    # %% The paths that the bytes took.
    for file in files.files():
        print(f"{file.url}: {file.path.name.lower()}{', ' if file.reason else ''}{file.reason}")
    print(files.statistics())

# %% Compare with NumPy.
expected = numbers.astype(np.float64).sum()
print(f"the kernels' sum is {total:.0f}, NumPy's {expected:.0f}")
if "://" not in prefix:
    written = np.fromfile(result)
    pathlib.Path(source).unlink()
    pathlib.Path(result).unlink()
    assert written.size == blocks and written.sum() == expected
assert total == expected
