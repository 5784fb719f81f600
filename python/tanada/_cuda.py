"""Waits for a CUDA stream through the driver, without a CUDA package."""

from __future__ import annotations

import ctypes
import functools


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(call: str, result: int) -> None:
    if result != 0:
        raise RuntimeError(f"{call} failed with CUDA error {result}")


def synchronize(stream: int, device_index: int) -> None:
    """Wait until the work queued on a stream so far is done.

    :param stream: a handle; 1 is the legacy default stream, 2 this thread's default stream.
    :param device_index: the stream's device; below 0: the current device of this thread.
    :raises RuntimeError: the driver refuses it; OSError: there is no driver.
    """
    driver = _driver()
    context = ctypes.c_void_p()
    _check("cuCtxGetCurrent", driver.cuCtxGetCurrent(ctypes.byref(context)))
    if device_index < 0 and context.value is not None:
        _check("cuStreamSynchronize", driver.cuStreamSynchronize(ctypes.c_void_p(stream)))
        return
    device = max(device_index, 0)
    _check(
        "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    )
    try:
        _check("cuCtxPushCurrent", driver.cuCtxPushCurrent_v2(context))
        try:
            _check("cuStreamSynchronize", driver.cuStreamSynchronize(ctypes.c_void_p(stream)))
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)
