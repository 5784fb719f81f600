"""NumPy-like arrays in memory that host code cannot access: shmem4py takes addresses only from
NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy

from . import _native
from ._error import Error
from ._shmem_library import require_running

Array = numpy.ndarray[Any, numpy.dtype[Any]]


class Piece:
    """A block of the device heap; its arrays can detect that it was freed."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.gone = ""
        """How it was freed; empty while it exists."""

    def require(self, call: str) -> None:
        require_running(call)
        if self.gone:
            raise Error(
                -_native.ESTATE,
                f"{call}: the array at {self.address:#x} ({self.size} bytes) was {self.gone} before",
            )


class _Memory:
    """An object from which NumPy makes an array without accessing the bytes."""

    def __init__(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        item_size: int,
        owner: object,
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "typestr": f"|V{item_size}",
            "strides": None if strides is None else tuple(strides),
        }


def array_at(
    address: int,
    shape: Sequence[int],
    dtype: numpy.dtype[Any],
    strides: Sequence[int] | None = None,
    owner: object = None,
) -> Array:
    """An array of existing memory; strides in bytes, None: C order. Keeps ``owner`` alive."""
    return numpy.asarray(_Memory(address, shape, strides, dtype.itemsize, owner)).view(dtype)


def _refused(name: str) -> Callable[..., NoReturn]:
    def refuse(self: DeviceArray, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"{name}: {self!r} is memory of a device, which host code does not reach: cupy.asarray() it, or "
            "shmem4py's get() into an array of NumPy"
        )

    refuse.__name__ = name
    return refuse


class DeviceArray(Array):
    """Memory of a device. Shapes, slices and calls of shmem4py work; loads and stores raise
    TypeError.

    An index returns an array, as in CuPy, so that ``a[3]`` is a word for shmem4py's atomics.
    NumPy's own C code is not prevented from loading: ``numpy.array(a)`` and ``memoryview(a)[0]``
    end the process.
    """

    piece: Piece | None
    """None: not in the device heap."""

    @classmethod
    def over(cls, array: Array, piece: Piece | None) -> DeviceArray:
        made: DeviceArray = array.view(cls)
        made.piece = piece
        return made

    def __array_finalize__(self, origin: Array | None) -> None:
        self.piece = getattr(origin, "piece", None)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            if isinstance(part, (bool, numpy.bool_)) or not (
                part is None or part is Ellipsis or isinstance(part, (int, numpy.integer, slice))
            ):
                raise TypeError(
                    f"{self!r}: an index of {type(part).__name__} gathers, which host code cannot here"
                )
        return super().__getitem__(
            parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)
        )

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def reshape(self, *shape: Any, order: Any = "C", **_: Any) -> Any:
        if not (self.flags.f_contiguous if order == "F" else self.flags.c_contiguous):
            raise TypeError(f"reshape: {self!r} is not contiguous, and host code cannot copy it")
        return super().reshape(*shape, order=order)

    def ravel(self, order: Any = "C") -> Any:
        return self.reshape(-1, order=order)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape} {self.dtype} at {self.ctypes.data:#x}>"

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return format(repr(self), specification)


for _name in (
    "__array_function__",
    "__bool__",
    "__complex__",
    "__contains__",
    "__copy__",
    "__deepcopy__",
    "__float__",
    "__index__",
    "__int__",
    "__reduce__",
    "__reduce_ex__",
    "__setitem__",
    "argpartition",
    "argsort",
    "astype",
    "byteswap",
    "choose",
    "compress",
    "copy",
    "dot",
    "dump",
    "dumps",
    "fill",
    "flatten",
    "getfield",
    "item",
    "itemset",
    "nonzero",
    "partition",
    "put",
    "repeat",
    "resize",
    "searchsorted",
    "setfield",
    "sort",
    "take",
    "tobytes",
    "tofile",
    "tolist",
    "tostring",
    "trace",
):
    setattr(DeviceArray, _name, _refused(_name))
setattr(DeviceArray, "__array_ufunc__", None)  # arithmetic is a TypeError


class CudaArray(DeviceArray):
    """Memory of a GPU: ``cupy.asarray(a)``, ``numba.cuda.as_cuda_array(a)`` and
    ``torch.as_tensor(a)`` share its bytes.

    An array of another PE, from ``ptr()``, is in another GPU. ``asarray()`` makes a copy of it,
    and ``from_dlpack(a)`` of CuPy or PyTorch uses it in place.
    """

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.piece is not None:
            self.piece.require("__cuda_array_interface__")
        # No stream: data transferred by host calls are there when the calls return.
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.ctypes.data if self.size else 0, not self.flags.writeable),
            "strides": None if self.flags.c_contiguous else self.strides,
        }

    def _cupy(self) -> Any:
        try:
            import cupy  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise BufferError(
                "DLPack of an array of the device heap is made by CuPy, which is not here"
            ) from None
        told = self.__cuda_array_interface__
        # The device of this PE's GPU, which can access it. With the owner's device, CuPy would make
        # copies.
        reach = (
            [(count - 1) * stride for count, stride in zip(self.shape, self.strides, strict=True)]
            if self.size
            else []
        )
        before, behind = -sum(min(0, each) for each in reach), sum(max(0, each) for each in reach)
        memory = cupy.cuda.UnownedMemory(
            told["data"][0] - before,
            before + behind + self.itemsize,
            self,
            cupy.cuda.runtime.getDevice(),
        )
        return cupy.ndarray(
            self.shape, self.dtype, cupy.cuda.MemoryPointer(memory, before), self.strides
        )

    def __dlpack__(self, **options: Any) -> Any:
        return self._cupy().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._cupy().__dlpack_device__()
