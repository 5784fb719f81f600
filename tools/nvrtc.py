"""NVRTC through ctypes: compiles a header as CuPy and Numba would. Needs no GPU."""

import ctypes
import ctypes.util
import pathlib


def load(root):
    """libnvrtc, or None where it is not installed."""
    places = [*root.glob(".venv-cuda/lib/python3*/site-packages/nvidia/cu*/lib/libnvrtc.so.*"),
              *pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so.*"), ctypes.util.find_library("nvrtc")]
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


def compile_header(library, include, name):
    """None, or what NVRTC says against the header: a warning counts."""
    program = ctypes.c_void_p()
    source = f"#include <{name}>\n#include <{name}>\n".encode()
    if library.nvrtcCreateProgram(ctypes.byref(program), source, b"alone.cu", 0, None, None) != 0:
        return f"{name}: NVRTC does not start"
    options = [f"-I{include}".encode(), b"--std=c++17", b"--gpu-architecture=sm_90"]
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = log_of(library, program)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return f"{name}: NVRTC:\n{log.strip()}" if failed or "warning" in log else None
