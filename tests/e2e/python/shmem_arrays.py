"""The steps that tests/e2e/python/test_shmem.py runs in each PE: shmem_arrays.py NAME. Prints "NAME
passed", or ends with an exception.
"""

import atexit
import copy
import os
import pickle
import sys
import types

import numpy as np

import tanada
import tanada.shmem as device


def fails(kind, message, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert message in str(error), f"{message!r} is not in {error!r}"
        return error
    raise AssertionError(f"{call} did not fail with {message!r}")


def imported():
    from shmem4py import shmem

    return shmem


def to_host(shmem, a):
    """The bytes of this PE, by a call of shmem4py."""
    here = np.empty(a.shape, a.dtype, "C" if a.flags.c_contiguous else "F")
    shmem.get(here, a, shmem.my_pe())
    return here


def allocation():
    """Without shmem4py."""
    device.init()
    me = int(os.environ["PMIX_RANK"])
    a = device.empty((3, 5), "f4")
    assert (
        type(a) is np.ndarray
        and a.shape == (3, 5)
        and a.dtype == np.float32
        and device.kind() is device.Kind.HOST
    )
    a[:] = me
    assert a.sum() == 15 * me
    ordered = device.zeros((4, 6), order="F")
    assert ordered.flags.f_contiguous and not ordered.any()
    aligned = device.empty(100, "u1", align=1 << 16)
    assert aligned.ctypes.data % (1 << 16) == 0
    filled, given = device.full((2, 2), 7, "i2"), device.array([[1, 2], [3, 4 + me]], "i8")
    assert (
        (filled == 7).all() and filled.dtype == np.int16 and given.tolist() == [[1, 2], [3, 4 + me]]
    )
    transposed = device.array(given.T)
    assert transposed.flags.f_contiguous and (transposed == given.T).all()
    scalar, none = device.array(3.5), device.zeros((0, 4), "c16")
    assert scalar.shape == () and scalar == 3.5 and none.shape == (0, 4)
    for each in (none, scalar, transposed, given, filled, aligned, ordered, a):
        device.free(each)
    again = device.empty(3, "u1")
    device.free(again)


def neighbours():
    shmem = start()
    me, count = shmem.my_pe(), shmem.n_pes()
    a = device.array(np.arange(10.0) + 100 * me)
    other = device.ptr(a, (me + 1) % count)
    assert type(other) is np.ndarray and (other == np.arange(10.0) + 100 * ((me + 1) % count)).all()
    part = device.ptr(a[2:9:3], (me + 1) % count)
    assert (part == other[2:9:3]).all()
    shmem.barrier_all()
    other[0] = me
    shmem.barrier_all()
    assert a[0] == (me - 1) % count and device.ptr(a, count) is None
    device.free(a)


def strangers():
    shmem = start()
    a = device.zeros(4)
    assert (
        device.ptr(a, shmem.my_pe()) is not None
        and device.ptr(a, (shmem.my_pe() + 1) % shmem.n_pes()) is None
    )
    shmem.put(a, np.full(4, 1.0 + shmem.my_pe()), (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.barrier_all()
    assert (to_host(shmem, a) == 1 + (shmem.my_pe() - 1) % shmem.n_pes()).all()
    device.free(a)


def start():
    device.init()
    return imported()


def calls():
    """Arrays of the device heap in each kind of shmem4py's calls, beside those of the host's heap
    and NumPy's.
    """
    shmem = start()
    me, count = shmem.my_pe(), shmem.n_pes()
    right, left = (me + 1) % count, (me - 1) % count
    for dtype in ("i4", "u8", "f4", "f8", "c16"):
        a, b = device.full(1000, me, dtype), device.zeros((10, 100), dtype)
        host = shmem.full(1000, 10 + me, dtype)
        shmem.put(b, a, right)
        shmem.barrier_all()
        assert (to_host(shmem, b) == left).all()
        shmem.barrier_all()
        shmem.put(b, host, right)  # of the other heap
        shmem.put_nbi(a[10:20], np.full(10, 70 + me, dtype), right, 10)
        shmem.barrier_all()
        assert (to_host(shmem, b) == 10 + left).all() and (
            to_host(shmem, a)[10:20] == 70 + left
        ).all()
        shmem.get(host, a, right)
        assert (host[:10] == right).all() and (host[10:20] == 70 + me).all()
        shmem.barrier_all()
        if dtype != "c16":  # shmem4py has no strided calls for it
            shmem.iput(a, b.reshape(-1), right, 2, 1, 5)
            shmem.barrier_all()
            assert (to_host(shmem, a)[:10:2] == 10 + (left - 1) % count).all()
        shmem.barrier_all()
        shmem.put(a, np.full(1000, me + 1, dtype), me)
        shmem.sum_reduce(b, a, 100)
        assert (to_host(shmem, b)[0] == count * (count + 1) // 2).all()
        shmem.barrier_all()  # targets of a collective must be ready in all PEs
        shmem.broadcast(b, a, 0, 50)
        assert (to_host(shmem, b)[0, :50] == 1).all()
        shmem.barrier_all()
        shmem.fcollect(b, a, 30)
        assert (
            to_host(shmem, b).reshape(-1)[: 30 * count].reshape(count, 30)
            == np.arange(1, count + 1)[:, None]
        ).all()
        for each in (a, b):
            device.free(each)
        shmem.free(host)


def words():
    """Atomics, waits and signals on words of devices."""
    shmem = start()
    me, count = shmem.my_pe(), shmem.n_pes()
    counters = device.zeros(4, "i8")
    for pe in range(count):
        shmem.atomic_add(counters[1:2], me + 1, pe)
        shmem.atomic_inc(counters[3:], pe)
    shmem.wait_until(counters[3:], shmem.CMP.EQ, count)
    assert to_host(shmem, counters).tolist() == [0, count * (count + 1) // 2, 0, count]
    shmem.barrier_all()  # this PE's counters are complete, the neighbour's may not be
    assert shmem.atomic_fetch(counters[3:], (me + 1) % count) == count
    flags, data = device.zeros(2, "u8"), device.zeros(100, "f4")
    came = device.signal(flags[1:])
    shmem.put_signal(
        data, device.buffer(np.full(100, me, "f4")), (me + 1) % count, came, 1, shmem.SIGNAL.ADD
    )
    assert shmem.signal_wait_until(came, shmem.CMP.GE, 1) == 1 and shmem.signal_fetch(came) == 1
    assert (to_host(shmem, data) == (me - 1) % count).all()
    fails(TypeError, "a signal is one of uint64", device.signal, data[:1])
    fails(TypeError, "a signal is one of uint64", device.signal, flags)
    shmem.barrier_all()
    for each in (data, flags, counters):
        device.free(each)


def mistakes():
    fails(tanada.Error, "TND_ESTATE: empty: OpenSHMEM is not running", device.empty, 3)
    fails(tanada.Error, "TND_ESTATE: finalize: OpenSHMEM is not running", device.finalize)
    assert device.kind() is device.Kind.NONE
    shmem = start()
    a = device.empty(8)
    fails(MemoryError, "SHMEM_DEVICE_SYMMETRIC_SIZE", device.empty, 1 << 50)
    fails(ValueError, "align=48 is no power of two", lambda: device.empty(3, align=48))
    fails(ValueError, "below 0", device.empty, (3, -1))
    fails(TypeError, "Python's objects", device.empty, 3, object)
    fails(TypeError, "elements are bytes", device.empty, 3, "S0")
    fails(TypeError, "list is no array of NumPy", device.buffer, [1])
    fails(tanada.Error, "EINVAL: free: no array of the device heap begins at", device.free, a[1:])
    fails(
        tanada.Error,
        "EINVAL: free: no array of the device heap begins at",
        device.free,
        np.zeros(3),
    )
    fails(tanada.Error, "EINVAL: free: no array", device.free, shmem.zeros(3))
    device.free(a)
    assert "freed before" in str(fails(tanada.Error, "", device.free, a))
    last = device.empty(3)
    shmem.finalize()  # shmem4py's start
    assert device.kind() is not device.Kind.NONE
    device.finalize()
    for call in (
        lambda: device.free(last),
        lambda: device.ptr(last, 0),
        lambda: device.empty(3),
        lambda: device.signal(last),
    ):
        fails(tanada.Error, "TND_ESTATE", call)


def guarded():
    """Device memory that host code cannot access, as a GPU's."""
    shmem = start()
    me, count = shmem.my_pe(), shmem.n_pes()
    a = device.array(np.arange(24.0).reshape(4, 6) + 100 * me)
    assert (
        type(a) is device.DeviceArray
        and device.kind() is device.Kind.GUARDED
        and not hasattr(a, "__cuda_array_interface__")
    )
    assert f"DeviceArray (4, 6) float64 at {a.ctypes.data:#x}" in f"{a}" == str(a) == repr(a)
    assert (
        [len(row) for row in a] == [6] * 4
        and a[1:, ::2].strides == (48, 16)
        and a.T.shape == (6, 4)
        and a[2, 3].shape == ()
    )
    for call in (
        lambda: a + 1,
        lambda: 1 + a,
        lambda: a == a,
        lambda: np.sum(a),
        lambda: a.sum(),
        lambda: a.tolist(),
        lambda: float(a[0, 0]),
        lambda: bool(a[0, 0]),
        lambda: a.copy(),
        lambda: 3 in a,
        lambda: a.T.reshape(-1),
        lambda: a[[0, 1]],
        lambda: a[a],
        lambda: a[True],
        lambda: a.__setitem__(0, 1),
        lambda: a.__iadd__(1),
        lambda: np.copyto(a, 0),
        lambda: a.max(),
        lambda: a.fill(0),
        lambda: copy.deepcopy(a),
        lambda: pickle.dumps(a),
        lambda: np.dot(a, a),
    ):
        fails(TypeError, "", call)
    word = device.zeros((2, 2), "i8")
    shmem.atomic_add(word[1, 1], 5, (me + 1) % count)
    other = device.ptr(a[1], (me + 1) % count)
    assert type(other) is device.DeviceArray and other.piece is a.piece
    shmem.barrier_all()
    assert to_host(shmem, word).tolist() == [[0, 0], [0, 5]]
    assert (to_host(shmem, a.reshape(24)[6:12]) == np.arange(6.0, 12) + 100 * me).all()
    view = a[0]
    device.free(a)
    fails(tanada.Error, "was freed before", device.ptr, view, 0)
    fails(tanada.Error, "was freed before", device.free, a)
    device.free(word)


def interface():
    """A GPU's array as CuPy and Numba see it, and their arrays for shmem4py."""
    shmem = start()
    me, right = shmem.my_pe(), (shmem.my_pe() + 1) % shmem.n_pes()
    heap = device.array(np.arange(24.0).reshape(4, 6))
    a = device.CudaArray.over(heap, device._pieces[heap.ctypes.data])
    array_interface = a.__cuda_array_interface__
    assert array_interface["data"] == (heap.ctypes.data, False) and (
        array_interface["shape"],
        array_interface["typestr"],
        array_interface["strides"],
        array_interface["version"],
    ) == ((4, 6), "<f8", None, 3)
    array_interface = a[1:, ::2].__cuda_array_interface__
    assert (
        array_interface["data"][0] == heap.ctypes.data + 48
        and array_interface["strides"] == (48, 16)
        and array_interface["shape"] == (3, 3)
    )
    assert a[:0].__cuda_array_interface__["data"] == (0, False)
    theirs = types.SimpleNamespace(
        __cuda_array_interface__={**a[2:, :].__cuda_array_interface__, "stream": None}
    )
    seen = device.buffer(theirs)
    assert type(seen) is device.CudaArray and seen.shape == (2, 6) and seen.flags.writeable
    shmem.put(seen, np.full((2, 6), me + 0.5), right)
    shmem.barrier_all()
    assert (
        heap[:2].tolist() == np.arange(12.0).reshape(2, 6).tolist()
        and (heap[2:] == (me - 1) % shmem.n_pes() + 0.5).all()
    )
    theirs.__cuda_array_interface__["data"] = (heap.ctypes.data, True)
    fails(ValueError, "read-only", shmem.get, device.buffer(theirs), heap, right)
    device.free(a)
    fails(tanada.Error, "freed before", lambda: a.__cuda_array_interface__)
    fails(tanada.Error, "freed before", lambda: hasattr(a[1], "__cuda_array_interface__"))


def streams():
    """Put, signal and wait in a stream's order; the host executor has one."""
    device.init(kernels=True)
    shmem = imported()
    me, count = shmem.my_pe(), shmem.n_pes()
    right, left = (me + 1) % count, (me - 1) % count
    a, b, word = device.full(50_000, me, "f4"), device.zeros(50_000, "f4"), device.zeros(1, "u8")
    for turn in range(1, 4):
        device.put_signal_on_stream(b, a, right, word, 1, shmem.SIGNAL.ADD)
        device.signal_wait_on_stream(word, shmem.CMP.GE, turn)
        device.get_on_stream(a, b, me)  # after the wait
        device.barrier_all_on_stream()
    device.synchronize()
    assert (to_host(shmem, a) == (me - 3) % count).all()
    device.put_on_stream(b[:100], a[100:200], right)
    device.quiet_on_stream()
    device.signal_on_stream(word, 70, shmem.SIGNAL.SET, right)
    device.signal_wait_on_stream(word, shmem.CMP.EQ, 70)
    device.synchronize()
    assert (to_host(shmem, b)[:100] == (left - 3) % count).all()
    fails(ValueError, "400 bytes do not fit 40", device.put_on_stream, b[:10], a[:100], right)
    fails(ValueError, "not contiguous", device.put_on_stream, b[::2], a[:10], right)
    fails(TypeError, "a signal is one of uint64", device.signal_on_stream, a[:1], 1, 0, right)
    fails(TypeError, "str is no stream", device.quiet_on_stream, "1")
    if device.kind() is device.Kind.HOST:  # a GPU's kernels are waited for without a limit
        device.signal_wait_on_stream(word, shmem.CMP.EQ, 71)
        fails(tanada.Error, "ETIMEDOUT", device.synchronize, None, 0.05)
        shmem.atomic_set(word, 71, me)
        device.synchronize(timeout=float("inf"))
    shmem.barrier_all()
    for each in (word, b, a):
        device.free(each)


def streams_without_kernels():
    start()
    fails(
        tanada.Error,
        "EOPNOTSUPP: quiet_on_stream: kernels have no part in this job",
        device.quiet_on_stream,
    )


def before():
    """shmem4py first: without a device heap, which is reported."""
    shmem = imported()
    fails(
        tanada.Error, "TND_ESTATE: init: OpenSHMEM has started without a device heap", device.init
    )
    fails(tanada.Error, "without a device heap", device.empty, 3)
    a = shmem.zeros(10)  # it continues
    shmem.put(a, a, (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.free(a)


def by_hand():
    """Neither automatic start nor automatic end of shmem4py."""
    import shmem4py

    shmem4py.rc.initialize = False
    device.init()
    shmem = imported()
    a = device.zeros(3)
    shmem.put(a, np.ones(3), (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.barrier_all()
    assert (to_host(shmem, a) == 1).all()
    device.free(a)
    device.finalize()
    assert device.kind() is device.Kind.NONE


def left():
    """Nothing is freed or finalized explicitly."""
    shmem = start()
    kept.append(device.ptr(device.zeros(3), shmem.my_pe()))


kept = []
if __name__ == "__main__":
    name = sys.argv[1]
    globals()[name]()
    atexit.register(print, f"{name} passed", flush=True)
