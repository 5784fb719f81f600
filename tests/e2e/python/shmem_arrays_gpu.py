"""Steps of tools/gpu/shmem_python.sh in each PE, as those of shmem_arrays.py: arrays of CuPy and
Numba over the heap of GPUs.
"""

import sys

import numpy as np
from shmem_arrays import fails, start, to_host

import tanada
import tanada.shmem as device


def begun():
    shmem = start()
    assert device.kind() is device.Kind.CUDA, device.kind()
    return (
        shmem,
        shmem.my_pe(),
        (shmem.my_pe() + 1) % shmem.n_pes(),
        (shmem.my_pe() - 1) % shmem.n_pes(),
    )


def cupy_arrays():
    shmem, me, right, left = begun()
    import cupy

    plain = np.arange(24.0).reshape(4, 6)
    a, b = device.array(plain + 100 * me), device.zeros((4, 6))
    assert type(a) is device.CudaArray and repr(a).startswith("<CudaArray (4, 6) float64 at ")
    current, of = (
        cupy.cuda.runtime.getDevice(),
        cupy.cuda.runtime.pointerGetAttributes(a.ctypes.data).device,
    )
    print(f"PE {me}: the heap is GPU {of}'s, GPU {current} is current", flush=True)
    assert current == of
    x, y = cupy.asarray(a), cupy.asarray(b)
    assert x.data.ptr == a.ctypes.data and x.shape == a.shape and x.dtype == a.dtype
    assert (cupy.asnumpy(x) == plain + 100 * me).all() and (
        cupy.asnumpy(cupy.asarray(a[1:, ::2])) == plain[1:, ::2] + 100 * me
    ).all()
    x += 1
    cupy.cuda.get_current_stream().synchronize()
    assert (to_host(shmem, a) == plain + 100 * me + 1).all()
    shmem.put(b, a, right)
    shmem.barrier_all()
    assert (cupy.asnumpy(y) == plain + 100 * left + 1).all()
    shmem.barrier_all()

    private = cupy.full(24, me, "f8")  # of CuPy's pool; buffer() waits for the stream that fills it
    shmem.put(b.reshape(24), device.buffer(private), right)
    shmem.barrier_all()
    assert (cupy.asnumpy(y) == left).all()
    shmem.get(device.buffer(private), a.reshape(24), right)
    assert (cupy.asnumpy(private) == plain.reshape(24) + 100 * right + 1).all()
    assert cupy.from_dlpack(a).data.ptr == x.data.ptr

    other = device.ptr(a, right)
    print(
        f"PE {me}: {'no way to' if other is None else 'loads and stores reach'} PE {right}",
        flush=True,
    )
    if other is not None:
        there = cupy.from_dlpack(other)  # asarray() copies memory of another GPU
        assert there.data.ptr == other.ctypes.data and there.device.id == current
        assert (
            cupy.asnumpy(cupy.from_dlpack(other[::-1, ::2])) == cupy.asnumpy(there)[::-1, ::2]
        ).all()
        assert (cupy.asnumpy(there[1:]) == plain[1:] + 100 * right + 1).all()
        there[0, 0] = -1 - me
        cupy.cuda.get_current_stream().synchronize()
    shmem.barrier_all()
    assert other is None or float(x[0, 0]) == -1 - left
    device.free(x)  # where it begins
    fails(tanada.Error, "freed before", cupy.asarray, a)
    fails(tanada.Error, "freed before", device.free, a)
    device.free(b)


def numba_arrays():
    shmem, me, right, left = begun()
    from numba import cuda

    @cuda.jit
    def add(a, value):
        i = cuda.grid(1)
        if i < a.size:
            a[i] += value

    a, b = device.array(np.arange(1000, dtype="f4")), device.zeros(1000, "f4")
    seen = cuda.as_cuda_array(a)
    assert seen.device_ctypes_pointer.value == a.ctypes.data and seen.dtype == a.dtype
    add[8, 128](seen, np.float32(me))
    cuda.synchronize()
    shmem.put(b, a, right)
    shmem.barrier_all()
    assert (cuda.as_cuda_array(b).copy_to_host() == np.arange(1000) + left).all()
    private = cuda.to_device(np.full(1000, 7 + me, "f4"))
    shmem.barrier_all()
    shmem.put(b, device.buffer(private), right)
    shmem.barrier_all()
    assert (to_host(shmem, b) == 7 + left).all()
    device.free(a)
    device.free(b)


def late_kernel():
    """buffer() waits for a kernel that is still running on CuPy's stream."""
    shmem, me, right, left = begun()
    import cupy

    late = cupy.RawKernel(
        r"""extern "C" __global__ void late(float *out, int count) {
        for (int i = 0; i < 300; i++) __nanosleep(1000000);
        for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = i;
    }""",
        "late",
    )
    a, source = device.zeros(100_000, "f4"), cupy.zeros(100_000, "f4")
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        late((1,), (256,), (source, source.size))
        shmem.put(a, device.buffer(source), right)
    shmem.barrier_all()
    assert (to_host(shmem, a) == np.arange(100_000)).all()
    device.free(a)


def cupy_streams():
    """Kernels of CuPy, puts and waits in one stream's order; the host waits once."""
    device.init(kernels=True)
    from shmem4py import shmem  # noqa: I001 (starts before cupy)
    import cupy

    me, count = shmem.my_pe(), shmem.n_pes()
    right, turns, size = (me + 1) % count, 50, 100_000
    a, b, word = device.zeros(size, "f4"), device.zeros(size, "f4"), device.zeros(1, "u8")
    x, y, stream = cupy.asarray(a), cupy.asarray(b), cupy.cuda.Stream(non_blocking=True)
    with stream:
        x += me
        for turn in range(1, turns + 1):
            device.put_signal_on_stream(b, a, right, word, 1, shmem.SIGNAL.ADD, stream)
            device.signal_wait_on_stream(word, shmem.CMP.GE, turn, stream)
            x[:] = y + 1  # the left neighbour's value plus one
            device.barrier_all_on_stream(stream)
    device.synchronize(stream)
    assert (to_host(shmem, a) == (me - turns) % count + turns).all()
    device.get_on_stream(y[:100], x[100:200], right, stream)
    stream.synchronize()
    assert (to_host(shmem, b)[:100] == (right - turns) % count + turns).all()
    shmem.barrier_all()
    for each in (a, b, word):
        device.free(each)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"{sys.argv[1]} passed", flush=True)
