"""NVRTC through ctypes, which compiles a header as CuPy and Numba do. Needs no GPU."""

import ctypes
import ctypes.util
import pathlib


def load(root, name="nvrtc"):
    """libnvrtc, or another library of CUDA's such as nvJitLink; None where it is not installed."""
    places = [
        *root.glob(f".venv-cuda/lib/python3*/site-packages/nvidia/cu*/lib/lib{name}.so.*"),
        *pathlib.Path("/usr/local/cuda/lib64").glob(f"lib{name}.so.*"),
        ctypes.util.find_library(name),
    ]
    for place in places:
        if place and "alt" not in str(place):
            return ctypes.CDLL(str(place))
    return None


def log_of(library, program):
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, text)
    return text.value.decode()


def compile_source(library, source, *options):
    """Return NVRTC's log, empty if there are no messages, and with "-dlto" the LTO-IR, or None."""
    program = ctypes.c_void_p()
    if (
        library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"alone.cu", 0, None, None
        )
        != 0
    ):
        return "NVRTC does not start", None
    words = [
        option.encode() for option in ("--std=c++17", "--gpu-architecture=compute_90", *options)
    ]
    failed = library.nvrtcCompileProgram(
        program, len(words), (ctypes.c_char_p * len(words))(*words)
    )
    log, code = log_of(library, program).strip("\0\n "), None
    if not failed and "-dlto" in options:
        size = ctypes.c_size_t()
        library.nvrtcGetLTOIRSize(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        library.nvrtcGetLTOIR(program, code)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log or ("failed without a message" if failed else ""), code


def compile_header(library, include, name):
    """Return NVRTC's errors and warnings for the header, or None."""
    log, _ = compile_source(library, f"#include <{name}>\n#include <{name}>\n", f"-I{include}")
    return f"{name}: NVRTC:\n{log}" if log else None
