"""Kernels in C++, compiled by CuPy, read a file, sum it and write the sums to another.
usage: cupy_read.py [FOLDER [ELEMENTS]]

The calls without a gfile_ref are the paper's: tanada.cupy.bind() sets their session. Needs a GPU
and CuPy.
"""

# %% Requirements.
import pathlib
import sys

import cupy
import numpy as np

import tanada
import tanada.cupy

folder = sys.argv[1] if len(sys.argv) > 1 else "/tmp"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 16 << 20
blocks, threads = 64, 256

device = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
print(f"device: {device['name'].decode()}", file=sys.stderr)

# %% The kernels. Every thread of a block makes each call, with equal arguments; the first status
# that is not 0 is kept.
source_code = r"""
#include <tanada/device/gfile.cuh>
using namespace tanada;

__device__ void keep(status code, int *kept) {
  if (code != status::ok && threadIdx.x == 0) atomicCAS(kept, 0, int(code));
}

extern "C" __global__ void sum_file(const char *url, double *sums, int *kept) {
  constexpr u64 chunk = 4096;
  __shared__ float numbers[chunk];
  this_block const all;
  int fd = -1;
  status code = gopen(all, url, g_rdonly, &fd);
  u64 const size = code == status::ok ? gfstat(all, fd).size : 0;
  double mine = 0;
  for (u64 offset = blockIdx.x * sizeof numbers; offset < size && code == status::ok; offset += gridDim.x * sizeof numbers) {
    gio_result const done = gread(all, fd, numbers, offset, min(u64(sizeof numbers), size - offset));
    code = done.status;
    for (u64 i = threadIdx.x; i < done.size / sizeof(float); i += blockDim.x) mine += numbers[i];
    all.sync();
  }
  atomicAdd(&sums[blockIdx.x], mine);
  keep(code, kept);
  if (fd >= 0) keep(gclose(all, fd), kept);
}

// With a gfile_ref, which may be any session's.
extern "C" __global__ void write_whole(gfile_ref files, const char *url, const unsigned char *bytes, u64 size, int *kept) {
  this_block const all;
  int fd = -1;
  status const code = gopen(all, files, url, g_wronly | g_creat | g_trunc, &fd);
  keep(code, kept);
  if (code != status::ok) return;
  keep(gwrite(all, files, fd, bytes, 0, size).status, kept);
  keep(gclose(all, files, fd), kept);
}
"""
module = cupy.RawModule(code=source_code, options=tanada.cupy.options())
sum_file, write_whole = module.get_function("sum_file"), module.get_function("write_whole")

# %% A file of numbers whose sum is exact in 64 bits.
numbers = (np.arange(count) % 1024).astype(np.float32)
source, result = f"{folder}/tanada_cupy.f32", f"{folder}/tanada_cupy.f64"
numbers.tofile(source)

with tanada.gfile.session(page_size="256KiB", device_tier_size="256MiB") as files:
    tanada.cupy.bind(module, files)
    status = cupy.zeros(1, np.int32)
    names = [tanada.cupy.url(name) for name in (source, result)]  # kept until the kernels are done

    # %% Read it from 64 blocks, twice: the second time from device memory.
    for _ in range(2):
        sums = cupy.zeros(blocks, np.float64)
        sum_file((blocks,), (threads,), (names[0], sums, status))
        files.wait(30)
        tanada.check(status.get()[0])
    total = sums.get().sum()

    # %% The sums are written to a file by gwrite; gclose publishes it.
    write_whole(
        (1,), (threads,), (files.ref.as_array(), names[1], sums, np.uint64(sums.nbytes), status)
    )
    files.wait(30)
    tanada.check(status.get()[0])

    # %% The paths that the bytes took.
    for file in files.files():
        print(f"{file.url}: {file.path.name.lower()}{', ' if file.reason else ''}{file.reason}")
    print(files.statistics())

# %% Compare with NumPy.
expected, written = numbers.astype(np.float64).sum(), np.fromfile(result)
print(f"the kernels' sum is {total:.0f}, NumPy's {expected:.0f}")
pathlib.Path(source).unlink()
pathlib.Path(result).unlink()
assert total == expected and written.size == blocks and written.sum() == expected
