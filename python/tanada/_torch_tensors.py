"""Tensors as ranges of a pool's object: their bytes in row-major order, without a header.

Memory that the pool can access is written and read in place. Other tensors pass through pieces of
at most ``PIECE_SIZE`` bytes.
"""

from __future__ import annotations

import errno
import io
import math
from typing import Any, NamedTuple

import torch

from ._error import Error
from .pool import Object

PIECE_SIZE = 16 << 20
ALIGNMENT = 64
"""Of a tensor in its object, so that a mapping of it is aligned for every type."""

_ROW_SIZE_MIN = 4096  # for shorter rows a copy costs less than a box
_ROW_DIMENSIONS_MAX = 2


class Entry(NamedTuple):
    """Where an item of a checkpoint is. The metadata hold it as a tuple."""

    part: str
    """The object, below the checkpoint's name."""
    offset: int
    size: int
    dtype: torch.dtype | None
    """None: the bytes are a file, which PyTorch wrote."""
    shape: tuple[int, ...]


def is_plain(tensor: torch.Tensor) -> bool:
    """Are its elements all there is to it? Otherwise PyTorch serialises it."""
    kinds = (torch.Tensor, torch.nn.Parameter)
    return type(tensor) in kinds and tensor.layout == torch.strided and not tensor.is_quantized


def _is_reachable(tensor: torch.Tensor, device_index: int | None) -> bool:
    """Can the pool access the memory?"""
    kind, index = tensor.device.type, tensor.device.index
    return kind == "cpu" or (kind == "cuda" and device_index is not None and index == device_index)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory. The elements of the last dimension must be adjacent."""
    flat = tensor.reshape(1) if tensor.dim() == 0 else tensor
    if flat.stride(-1) != 1:  # there is only one, and PyTorch requires this stride all the same
        flat = flat.as_strided(flat.shape, (*flat.stride()[:-1], 1))
    return flat.view(torch.uint8)


def _row_dimensions(tensor: torch.Tensor) -> int:
    """How many leading dimensions precede those whose elements are adjacent."""
    count, expected = tensor.dim(), 1
    while count > 0 and (tensor.shape[count - 1] == 1 or tensor.stride(count - 1) == expected):
        count -= 1
        expected *= tensor.shape[count]
    return count


def _pieces(tensor: torch.Tensor, item_size: int) -> list[tuple[torch.Tensor, int]]:
    """Parts of a tensor of at least one dimension, of ``PIECE_SIZE`` at most or single rows, and
    their first row.
    """
    row_size = tensor.numel() // tensor.shape[0] * item_size
    if row_size > PIECE_SIZE:
        return [(tensor[row], row) for row in range(tensor.shape[0])]
    count = PIECE_SIZE // row_size
    return [(tensor[row : row + count], row) for row in range(0, tensor.shape[0], count)]


def write(target: Object, tensor: torch.Tensor, offset: int, device_index: int | None) -> None:
    """Write a plain tensor."""
    if tensor.numel() == 0:
        return
    if _is_reachable(tensor, device_index):
        if tensor.is_contiguous():
            target.write(_as_bytes(tensor), offset)
            return
        rows = _row_dimensions(tensor)
        row_size = math.prod(tensor.shape[rows:]) * tensor.element_size()
        if rows <= _ROW_DIMENSIONS_MAX and row_size >= _ROW_SIZE_MIN:
            target.write_box(_as_bytes(tensor), offset)
            return
    if tensor.nbytes <= PIECE_SIZE:
        target.write(_as_bytes(tensor.cpu().contiguous()), offset)
        return
    row_size = tensor.nbytes // tensor.shape[0]
    for piece, row in _pieces(tensor, tensor.element_size()):
        write(target, piece, offset + row * row_size, device_index)


def read(
    source: Object,
    entry: Entry,
    begin: tuple[int, ...],
    target: torch.Tensor,
    device_index: int | None,
) -> None:
    """Fill a tensor with the elements of a plain one from the index ``begin`` on."""
    assert entry.dtype is not None
    steps, step = [], entry.dtype.itemsize
    for length in reversed(entry.shape):
        steps.append(step)
        step *= length
    strides = tuple(reversed(steps))
    offset = entry.offset + sum(index * stride for index, stride in zip(begin, strides))
    _Range(source, entry.dtype, device_index).read(offset, strides, target)


class _Range(NamedTuple):
    source: Object
    dtype: torch.dtype
    device_index: int | None

    def read(self, offset: int, strides: tuple[int, ...], target: torch.Tensor) -> None:
        """Fill a tensor from rows that are ``strides`` bytes apart in the object."""
        if target.numel() == 0:
            return
        is_direct = target.dtype == self.dtype and _is_reachable(target, self.device_index)
        if not is_direct or (target.dim() > 0 and target.shape[-1] > 1 and target.stride(-1) != 1):
            self._read_pieces(offset, strides, target)
            return
        rows = max(_row_dimensions(target), self._row_dimensions(strides, target))
        if rows == 0:
            self._read_run(offset, target)
        elif rows <= _ROW_DIMENSIONS_MAX:
            self.source.read_box(_as_bytes(target), offset, strides[:rows])
        else:
            for row in range(target.shape[0]):
                self.read(offset + row * strides[0], strides[1:], target[row])

    def _row_dimensions(self, strides: tuple[int, ...], target: torch.Tensor) -> int:
        """Of the range in the object, as :func:`_row_dimensions` of memory."""
        count, expected = target.dim(), self.dtype.itemsize
        while count > 0 and (target.shape[count - 1] == 1 or strides[count - 1] == expected):
            count -= 1
            expected *= target.shape[count]
        return count

    def _read_run(self, offset: int, target: torch.Tensor) -> None:
        size = self.source.read_into(_as_bytes(target), offset)
        if size != target.nbytes:
            raise Error(
                -errno.EIO,
                f"{self.source.name} ends {target.nbytes - size} bytes before the end of a tensor",
            )

    def _read_pieces(self, offset: int, strides: tuple[int, ...], target: torch.Tensor) -> None:
        """For memory that the pool cannot access, and for tensors of another type."""
        size = target.numel() * self.dtype.itemsize
        if size <= PIECE_SIZE or target.dim() == 0:
            piece = torch.empty(target.shape, dtype=self.dtype)
            self.read(offset, strides, piece)
            target.copy_(piece)
            return
        for part, row in _pieces(target, self.dtype.itemsize):
            remaining = strides if part.dim() == target.dim() else strides[1:]
            self.read(offset + row * strides[0], remaining, part)


def serialised(tensor: torch.Tensor) -> Any:
    """The bytes of a tensor that is not plain, as a file of PyTorch."""
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    return buffer.getbuffer()
