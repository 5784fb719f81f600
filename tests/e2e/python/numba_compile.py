"""Every call of tanada.numba, and the example's kernels, compiled by numba-cuda and linked for
sm_90, without a GPU.
"""

import pathlib
import sys
import types as python_types

import numba.cuda.dispatcher
import numpy as np
from cuda.bindings import nvjitlink
from numba import cuda, types

import tanada._device
from tanada.gfile import Ref

# Code that queries the available GPU gets an invented one.
tanada._device.oldest_architecture = lambda: 90
numba.cuda.dispatcher.get_current_device = lambda: python_types.SimpleNamespace(
    compute_capability=(9, 0)
)

from tanada.numba import _calls, block, g_creat, g_rdwr, gfstat, gread, thread, warp  # noqa: E402


def every_call(files, url, out, status):
    numbers = cuda.shared.array(256, np.float32)
    opened = block.gopen(files, url, g_rdwr | g_creat)
    if opened.status != 0:
        status[0] = opened.status
        return
    size = block.gfstat(files, opened.fd).size
    offset = 0
    while offset < size:
        done = block.gread(files, opened.fd, numbers, offset, min(size - offset, numbers.nbytes))
        if done.status != 0:
            break
        offset += done.size
    page = warp.gmap(files, opened.fd, 0)
    if page.status == 0 and page.size > 3:
        out[0] = page.bytes[3]
        status[1] = warp.gunmap(files, page.bytes)
    status[2] = thread.gwrite(files, opened.fd, out[2:5], 0, 12).status
    status[3] = gread(files, opened.fd, out, 0, 4).status
    status[4] = block.gprefetch(files, opened.fd, 0, 100) + block.gfsync(files, opened.fd)
    status[5] = block.gftruncate(files, opened.fd, block.gpage_size(files))
    status[6] = block.gclose(files, opened.fd) + block.gunlink(files, url)


def sizes_are_integers(files, url, out, status):
    size = gfstat(files, 0).size
    status[size - 1 & 7] = gread(
        files, 0, out, size - 4, min(4, size - 4)
    ).size  # only an integer index compiles


def strided(files, url, out, status):
    status[0] = gread(files, 0, out[::2], 0, 4).status


def example_kernels():
    """Those of examples/python/numba_read.py, which come before its first work."""
    source = pathlib.Path(__file__).parents[3] / "examples/python/numba_read.py"
    kernels, mark, _ = source.read_text().partition("# %% A file of numbers")
    assert mark
    names = {"__name__": "example"}
    sys.argv = [str(source)]
    exec(compile(kernels, source, "exec"), names)
    return names["write_whole"].py_func, names["sum_file"].py_func


def compiled(kernel, third=types.float32):
    ref = types.NamedUniTuple(types.int64, 2, Ref)
    signature = types.void(ref, types.uint8[::1], third[::1], types.int32[::1])
    return cuda.compile(kernel, signature, cc=(9, 0), device=False, abi="numba", output="ltoir")[0]


def link(*codes):
    handle = nvjitlink.create(2, ["-arch=sm_90", "-lto"])
    for index, code in enumerate(codes):
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), str(index))
    nvjitlink.complete(handle)
    return nvjitlink.get_linked_cubin_size(handle)


for each in (every_call, sizes_are_integers):
    print("a cubin of", link(compiled(each), _calls._library.data), "bytes")
for each in example_kernels():
    print(
        "the example's",
        each.__name__,
        "a cubin of",
        link(compiled(each, types.float64), _calls._library.data),
        "bytes",
    )
try:
    compiled(strided)
except numba.core.errors.TypingError as error:
    assert "a buffer must be a contiguous array" in str(error), error
    print("a strided buffer is refused")
