"""The arrays that tanada.pool accepts as sources and targets, and boxes of them against NumPy's
slices.
"""

import array
import random
import sys

import pytest
from package import needed, raises

numpy = needed("numpy")


class Lent:
    """An array available only by DLPack, as other packages' are."""

    def __init__(self, array, versioned=True):
        self._array = array
        self._versioned = versioned

    def __dlpack__(self, *, stream=None, **how):
        if how and not self._versioned:
            raise TypeError("max_version")
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class OfDevice:
    """An array that claims to be in device memory."""

    def __init__(self, array, **more):
        self._kept = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "version": 3,
            "data": (array.ctypes.data, not array.flags.writeable),
            **more,
        }


SOURCES = {
    "bytes": b"terrace." * 100,
    "memoryview": memoryview(b"terrace." * 100)[8:],
    "array": array.array("d", range(100)),
    "floats": numpy.arange(600, dtype="f4").reshape(2, 3, 100),
    "no dimensions": numpy.float64(7.5),
    "records": numpy.zeros(50, [("a", "i4"), ("b", "S12")]),
    "dlpack": Lent(numpy.arange(100, dtype="i2")),
    "older dlpack": Lent(numpy.arange(100, dtype="i2"), versioned=False),
}


def test_dates_and_times_go_as_their_integers(pool):
    dates = numpy.arange("2026-01-01", "2026-01-11", dtype="M8[D]")
    for source in (dates, dates - dates[0]):
        pool.put("a", source)
        assert pool.get("a") == source.view("i8").tobytes()
        target = numpy.zeros_like(source)
        assert pool.get_into("a", target) == target.nbytes and (target == source).all()


@pytest.mark.parametrize("name", SOURCES)
def test_a_source(pool, name):
    source = SOURCES[name]
    expected = (
        source._array.tobytes()
        if isinstance(source, Lent)
        else bytes(memoryview(numpy.asarray(source)).tobytes())
    )
    pool.put("a", source)
    assert pool.get("a") == expected
    with pool.create("b") as made:
        made.write(source, 3)
        made.commit()
    assert pool.get("b") == b"\0\0\0" + expected


@pytest.mark.parametrize(
    "make",
    [
        lambda size: bytearray(size),
        lambda size: array.array("B", bytes(size)),
        lambda size: numpy.zeros(size // 8, "f8"),
        lambda size: Lent(numpy.zeros(size, "u1")),
    ],
)
def test_a_target(pool, make):
    content = random.Random(3).randbytes(80_000)
    pool.put("a", content)
    target = make(80_000)
    assert pool.get_into("a", target) == 80_000
    assert bytes(numpy.from_dlpack(target) if isinstance(target, Lent) else target) == content
    target = make(80_000)
    with pool.open("a") as opened:
        assert opened.read_into(target, 40_000) == 40_000
    assert (
        bytes(numpy.from_dlpack(target) if isinstance(target, Lent) else target)[:40_000]
        == content[40_000:]
    )


def test_what_is_no_source_and_no_target(tanada, pool):
    pool.put("a", b"12345678")
    strided = numpy.zeros((4, 4), "u1")[:, :2]
    for wrong, error in (
        (None, TypeError),
        ("text", TypeError),
        ([1, 2], TypeError),
        (strided, ValueError),
        (memoryview(b"12345678")[::2], BufferError),
        (Lent(strided), ValueError),
    ):
        with pytest.raises(error):
            pool.put("b", wrong)
    fixed = numpy.zeros(8, "u1")
    fixed.flags.writeable = False
    for wrong, error in (
        (b"87654321", BufferError),
        (fixed, ValueError),
        (Lent(fixed), ValueError),
        (None, TypeError),
    ):
        with pytest.raises(error):
            pool.get_into("a", wrong)
    with raises(tanada, "ERANGE"):
        pool.get_into("a", bytearray(7))
    assert [entry.name for entry in pool.list()] == ["a"]


def test_device_memory_goes_as_device_memory(tanada, pool, monkeypatch):
    """Host memory under that claim: without a GPU it must be refused, not read."""
    import tanada._cuda

    monkeypatch.setattr(
        tanada._cuda, "synchronize", lambda *stream: None
    )  # there may be no driver to query
    array = OfDevice(numpy.arange(100, dtype="f4"))
    with pytest.raises(tanada.Error):
        pool.put("a", array)
    with pytest.raises(TypeError, match="host memory"):
        pool.post_put("a", array)
    with pytest.raises(ValueError, match="contiguous"):
        pool.put("a", OfDevice(numpy.zeros((4, 4), "f4"), strides=(32, 4)))
    fixed = numpy.zeros(8, "u1")
    fixed.flags.writeable = False
    pool.put("b", b"12345678")
    with pytest.raises(ValueError, match="read-only"):
        pool.get_into("b", OfDevice(fixed))
    assert [entry.name for entry in pool.list()] == ["b"]


class RefusingBuffer(OfDevice):
    """CuPy 14's array in short: its buffer protocol always refuses."""

    def __buffer__(self, flags):
        raise TypeError("Accessing a CuPy ndarray on CPU is not allowed")


class OfDeviceWithBuffer(numpy.ndarray):
    """An array whose buffer protocol answers although its memory is a device's."""

    @property
    def __cuda_array_interface__(self):
        return OfDevice(self).__cuda_array_interface__

    def __dlpack_device__(self):
        return 2, 0


class OlderWithBuffer(OfDeviceWithBuffer):
    """The same without DLPack."""

    @property
    def __dlpack_device__(self):
        raise AttributeError("__dlpack_device__")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            RefusingBuffer,
            marks=pytest.mark.skipif(
                sys.version_info < (3, 12), reason="__buffer__ came with 3.12"
            ),
        ),
        lambda array: array.view(OfDeviceWithBuffer),
        lambda array: array.view(OlderWithBuffer),
    ],
)
def test_an_array_of_a_device_is_not_asked_for_a_buffer(tanada, pool, monkeypatch, make):
    import tanada._cuda

    monkeypatch.setattr(
        tanada._cuda, "synchronize", lambda *stream: None
    )  # there may be no driver to query
    pool.put("b", bytes(800))
    array = make(numpy.arange(100.0))
    refusals = (
        tanada.Error,
        BufferError,
        RuntimeError,
    )  # the pool has no GPU here, and NumPy no stream
    for call in (lambda: pool.put("a", array), lambda: pool.get_into("b", array)):
        with pytest.raises(refusals):
            call()
    assert [entry.name for entry in pool.list()] == ["b"]
    with pool.create("c") as made, pytest.raises(refusals):
        made.write_box(array.reshape(10, 10)[:, :5] if hasattr(array, "reshape") else array)


class Stream(Lent):
    """Claims to be in CUDA's memory, and records the stream for which it was requested to be ready."""

    def __dlpack__(self, *, stream=None, **how):
        self.asked = stream
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self):
        return 2, 3


def test_queued_work_is_waited_for(tanada, pool, monkeypatch):
    """The array is made ready on the legacy default stream of its device, which is waited for; or
    on its own stream.
    """
    import tanada._cuda

    waited = []
    monkeypatch.setattr(tanada._cuda, "synchronize", lambda *stream: waited.append(stream))
    array = Stream(numpy.zeros(8))
    with pytest.raises(TypeError, match="host memory"):
        pool.post_put("a", array)
    assert array.asked == 1 and waited == [(1, 3)]
    with pytest.raises(TypeError, match="host memory"):
        pool.post_put("a", OfDevice(numpy.zeros(8), stream=7))
    with pytest.raises(TypeError, match="host memory"):
        pool.post_put("a", OfDevice(numpy.zeros(8), stream=None))
    assert waited == [(1, 3), (7, -1), (1, -1)]


def test_boxes(pool):
    """Random boxes from a random array to a random position of a larger one in the pool, and back."""
    chance = random.Random(7)
    for _ in range(60):
        whole = numpy.zeros(
            [chance.randint(1, 9) for _ in range(3)], chance.choice(["u1", "f4", "c16"])
        )
        starts = [chance.randrange(size) for size in whole.shape]
        shape = [chance.randint(1, size - start) for size, start in zip(whole.shape, starts)]
        place = tuple(slice(start, start + size) for start, size in zip(starts, shape))
        parent = numpy.frombuffer(chance.randbytes(int(numpy.prod(shape)) * 8 * 16), "u1")
        source = (
            parent[: int(numpy.prod(shape)) * 4 * whole.itemsize]
            .view(whole.dtype)
            .reshape(2 * shape[0], 2 * shape[1], shape[2])
        )
        source = source[::2, ::2]
        offset = int(sum(start * stride for start, stride in zip(starts, whole.strides)))
        with pool.create("a", whole.nbytes) as made:
            made.write_box(source, offset, whole.strides[:2])
            made.commit()
            whole[place] = source
            assert pool.get("a") == whole.tobytes()
            back = numpy.zeros(shape, whole.dtype)
            made.read_box(back, offset, whole.strides[:2])
            assert back.tobytes() == source.tobytes()


def test_boxes_that_follow_each_other(tanada, pool):
    source = numpy.arange(60, dtype="i4").reshape(3, 4, 5)
    with pool.create("a") as made:
        made.write_box(source[:, 1:3, 1:4])
        made.write_box(source[:, :, ::1], 1000)
        made.write_box(numpy.zeros((0, 3)), 5000)
        made.commit()
        assert (
            made.read(72) == source[:, 1:3, 1:4].tobytes()
            and made.read(240, 1000) == source.tobytes()
        )
        target = numpy.zeros((3, 8), "i4")
        made.read_box(target[:, :4], 1000)
        assert (target[:, :4].ravel() == source.ravel()[:12]).all() and not target[:, 4:].any()
        with raises(tanada, "ERANGE"):
            made.read_box(target[:, :4], 1240 - 16)


def test_what_is_no_box(pool):
    array = numpy.zeros((4, 4, 4, 4), "i4")
    with pool.create("a", 10_000) as made:
        with pytest.raises(ValueError, match="two dimensions of rows"):
            made.write_box(array[:, ::2, ::2, ::2])
        with pytest.raises(ValueError, match="below 0"):
            made.write_box(array[::-1])
        with pytest.raises(ValueError, match="more strides"):
            made.write_box(array[0, 0, 0], 0, [4, 4])
        with pytest.raises(ValueError, match="not contiguous"):
            made.write_box(array[0, ::2, ::2], 0, [64])


def test_torch_tensors(pool):
    torch = needed("torch")
    tensor = torch.arange(1000, dtype=torch.float32).to(torch.bfloat16).reshape(10, 100)
    pool.put("a", tensor)
    assert pool.stat("a").size == 2000
    target = torch.zeros(10, 100, dtype=torch.bfloat16)
    assert pool.get_into("a", target) == 2000 and torch.equal(target, tensor)
    with pool.create("b") as made:
        made.write_box(tensor[::2, :50])
        made.commit()
        made.read_box(target[:5, 50:])
    assert torch.equal(target[:5, 50:], tensor[::2, :50])
    with pytest.raises((BufferError, RuntimeError)):
        pool.put("a", torch.zeros(3, requires_grad=True))
    with pytest.raises(ValueError, match="contiguous"):
        pool.put("a", tensor.T)
    with pool.open("a") as opened:
        view = torch.from_dlpack(opened.map())
    assert torch.equal(view.view(torch.bfloat16).reshape(10, 100), tensor)
