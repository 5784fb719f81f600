#!/usr/bin/env python3
"""Every public header compiles on its own, with warnings as errors, by every available compiler.

C headers are compiled as C11 and C++20, those of other standards also as C99 and C++11, and ComEx's
only where MPI is installed. Device headers are compiled as C++17 and C++20, also by nvcc and NVRTC
where these are installed. The headers are first copied as they will be installed, so that a header
that includes a file outside of the installed set fails.

A fast check takes only the lowest of several standards, and GCC: other compilers reach most headers
through the programs that they compile.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile

import nvrtc
import tree

DETAIL = "tanada/device/detail"
KERNEL_CALLS = f"{DETAIL}/shmem/calls/all.hpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]


def device_headers(root):
    """(path below device/detail, kind): "host" headers are for the host executor only, so CUDA
    compilers never see them; "part" headers are bodies of a .cuh, compiled through it."""
    detail = root / "include" / DETAIL
    headers = [path.relative_to(detail) for path in sorted(detail.rglob("*.hpp"))]
    return [(path, kind_of(path)) for path in headers]


def kind_of(path):
    if path.parts[:2] == ("simt", "host"):
        return "host"
    if path.parts[0] in ("gfile", "shmem") and path.name not in ("state.hpp", "view.hpp"):
        return "part"
    return "device"


def stage(root, target):
    """Copy the public headers as `make install` does."""
    shutil.copytree(root / "include/tanada", target / "tanada")
    shutil.copytree(root / "include/compat", target, dirs_exist_ok=True)


def compilers(*names, fast=False):
    """Those that are installed; a fast check needs only the first."""
    return [name for name in names if shutil.which(name)][: 1 if fast else None]


def find_nvcc(root):
    places = [
        os.environ.get("CUDACXX"),
        shutil.which("nvcc"),
        "/usr/local/cuda/bin/nvcc",
        *root.glob(".venv-cuda/lib/python3*/site-packages/nvidia/cu*/bin/nvcc"),
    ]
    return next((str(place) for place in places if place and pathlib.Path(place).is_file()), None)


def mpi_options():
    """The options that find mpi.h. None: MPI is not installed."""
    if not shutil.which("mpicc"):
        return None
    done = subprocess.run(["mpicc", "-show"], capture_output=True, text=True)
    folders = [word[2:] for word in done.stdout.split() if word.startswith("-I")]
    return (
        [option for folder in folders for option in ("-isystem", folder)]
        if done.returncode == 0
        else None
    )


def comex_commands(include, fast):
    options = mpi_options()
    if options is None:
        return
    for path in sorted(include.glob("comex/*.h")):
        name = path.relative_to(include).as_posix()
        for standard, language, names in (
            ("c11", "c", ("gcc", "clang")),
            ("c++20", "c++", ("g++", "clang++")),
        ):
            for compiler in compilers(*names, fast=fast):
                strict = ["-Wstrict-prototypes"] if language == "c" else []
                yield (
                    name,
                    [compiler, f"-std={standard}", f"-x{language}", *strict, *WARNINGS, *options],
                )


def nvshmem_commands(include, nvcc, fast):
    """NVSHMEM's names, for the host executor with CUDA's runtime of this tree, and by nvcc."""
    for name in ("nvshmem.h", "nvshmemx.h"):
        folder = f"-I{include}/nvshmem"
        runtime = ["-D_GNU_SOURCE", "-DTND_HOST_EXECUTOR", f"-I{include}/cuda", folder]
        for compiler in compilers("g++", "clang++", fast=fast):
            yield name, [compiler, "-std=c++17", "-xc++", *WARNINGS, *runtime]
        if nvcc:
            words = ["-std=c++17", "-arch=sm_90", "-Werror=all-warnings", "-Xcompiler=-Wall"]
            yield name, [nvcc, *words, folder, "-c", "-o", "/dev/null"]


def commands(root, include, fast):
    """(header, command that compiles a source) for every header and compiler."""
    for path in sorted(include.glob("tanada/*.h")):
        name = path.relative_to(include).as_posix()
        for compiler in compilers("gcc", "clang", fast=fast):
            yield name, [compiler, "-std=c11", "-xc", "-Wstrict-prototypes", *WARNINGS]
        for compiler in compilers("g++", "clang++", fast=fast):
            yield name, [compiler, "-std=c++20", "-xc++", *WARNINGS]
    for path in sorted(include.glob("*.h")):  # these include their parts, which are in folders
        for standard, language, names in (
            ("c99", "c", ("gcc", "clang")),
            ("c11", "c", ("gcc", "clang")),
            ("c++11", "c++", ("g++", "clang++")),
            ("c++20", "c++", ("g++", "clang++")),
        ):
            if fast and standard in ("c11", "c++20"):
                continue
            for compiler in compilers(*names, fast=fast):
                strict = ["-Wstrict-prototypes"] if language == "c" else []
                yield path.name, [compiler, f"-std={standard}", f"-x{language}", *strict, *WARNINGS]
    yield from comex_commands(include, fast)
    nvcc = None if fast else find_nvcc(root)
    # shmemg.h with its calls for kernels, and the calls that the host queues between kernels.
    for name in ("shmemg.h", "shmemx_on_stream.cuh") if (include / KERNEL_CALLS).exists() else ():
        for compiler in compilers("g++", "clang++", fast=fast):
            for standard in ("c++17",) if fast else ("c++17", "c++20"):
                yield (
                    name,
                    [compiler, f"-std={standard}", "-xc++", "-DTND_HOST_EXECUTOR", *WARNINGS],
                )
        if nvcc:
            yield (
                name,
                [
                    nvcc,
                    "-std=c++17",
                    "-arch=sm_90",
                    "-Werror=all-warnings",
                    "-Xcompiler=-Wall",
                    "-c",
                    "-o",
                    "/dev/null",
                ],
            )
    yield from nvshmem_commands(include, nvcc, fast)
    names = [
        path.relative_to(include).as_posix() for path in sorted(include.glob("tanada/device/*.cuh"))
    ]
    names += [
        f"{DETAIL}/{path.as_posix()}" for path, kind in device_headers(root) if kind != "part"
    ]
    for name in names:
        for compiler in compilers("g++", "clang++", fast=fast):
            yield name, [compiler, "-std=c++17", "-xc++", *WARNINGS]
        if not fast:
            yield name, ["g++", "-std=c++20", "-xc++", *WARNINGS]
        if nvcc and name.endswith(".cuh"):
            yield (
                name,
                [
                    nvcc,
                    "-std=c++17",
                    "-arch=sm_90",
                    "-Werror=all-warnings",
                    "-Xcompiler=-Wall",
                    "-c",
                    "-o",
                    "/dev/null",
                ],
            )


def compile_one(include, what, command):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "alone.cu" if "nvcc" in command[0] else "alone.c")
        source.write_text(f"#include <{what}>\n#include <{what}>\n")
        done = subprocess.run(
            [*command, f"-I{include}", str(source)], capture_output=True, text=True
        )
    if done.returncode == 0:
        return None
    return f"{what}: {' '.join(command[:3])}:\n{(done.stderr or done.stdout).strip()}"


def check(root, only=None, fast=False):
    """Return the problems found. only: compile just this header, named as users include it."""
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder)
        stage(root, include)
        jobs = [job for job in commands(root, include, fast) if only in (None, job[0])]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda job: compile_one(include, *job), jobs))
        names = [
            path.relative_to(include).as_posix()
            for path in sorted(include.glob("tanada/device/*.cuh"))
        ]
        if not fast:
            names += [
                f"{DETAIL}/{path.as_posix()}"
                for path, kind in device_headers(root)
                if kind == "device"
            ]
        compiler = nvrtc.load(root)
        if compiler:
            found += [
                nvrtc.compile_header(compiler, include, name)
                for name in names
                if only in (None, name)
            ]
    return [problem for problem in found if problem]


if __name__ == "__main__":
    tree.run(__doc__, check)
