"""Compiles device code at run time for the available GPU, by NVRTC."""

from __future__ import annotations

import pathlib
from typing import Any

_FOLDER = pathlib.Path(__file__).resolve().parent


def oldest_architecture() -> int:
    """Compute capability of the oldest visible GPU, such as 90. LTO-IR for it works on all of them.

    :raises RuntimeError: there is no driver or no GPU; the message has the reason.
    """
    from cuda.bindings import driver

    try:
        (failed,) = driver.cuInit(0)
    except RuntimeError as missing:  # there is no libcuda.so
        raise RuntimeError(f"no CUDA driver here ({missing})") from None
    failed, count = (failed, 0) if failed else driver.cuDeviceGetCount()
    if failed or count == 0:
        raise RuntimeError(f"no GPU that CUDA can use here ({getattr(failed, 'name', failed)})")
    attribute = driver.CUdevice_attribute
    architectures = []
    for index in range(count):
        _, device = driver.cuDeviceGet(index)
        _, major = driver.cuDeviceGetAttribute(
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
        )
        _, minor = driver.cuDeviceGetAttribute(
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
        )
        architectures.append(int(major) * 10 + int(minor))
    return min(architectures)


def compile_to_ltoir(file_name: str, architecture: int) -> bytes:
    """LTO-IR of a source of this package. It takes a quarter of a second, so nothing is cached on
    disk.

    :raises RuntimeError: NVRTC refuses the source; the message contains its log.
    """
    from cuda.bindings import nvrtc

    source = (_FOLDER / file_name).read_bytes()
    options = [
        f"--gpu-architecture=compute_{architecture}",
        "--std=c++17",
        "-dlto",
        "--relocatable-device-code=true",
        f"-I{_FOLDER / 'include'}",
    ]
    program = _made(nvrtc.nvrtcCreateProgram(source, file_name.encode(), 0, [], []))
    try:
        (failed,) = nvrtc.nvrtcCompileProgram(
            program, len(options), [option.encode() for option in options]
        )
        if failed:
            log = bytearray(_made(nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC: {failed.name}\n{log.decode(errors='replace')}")
        code = bytearray(_made(nvrtc.nvrtcGetLTOIRSize(program)))
        _made(nvrtc.nvrtcGetLTOIR(program, code))
        return bytes(code)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _made(answer: tuple[Any, ...]) -> Any:
    failed, *results = answer
    if failed:
        raise RuntimeError(f"NVRTC: {failed.name}")
    return results[0] if results else None
