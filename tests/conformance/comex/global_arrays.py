"""Global Arrays built on our ARMCI, and programs that use it."""

import os
import pathlib
import re
import subprocess

import comex_jobs

RECIPE = comex_jobs.ROOT / "tools/comex/global_arrays.sh"
LENNARD_JONES = "global/examples/lennard-jones/lennard.x"
PROGRAMS = ("global/testing/lock.x", "global/testing/getmem.x", "global/testing/elempatch.x")
ALL = "TND_COMEX_ALL" in os.environ


class Missing(Exception):
    """Global Arrays is not available here; the message has the reason."""


def make():
    """The folder of its build. It is kept next to our build, so that only the first run is slow."""
    if reason := comex_jobs.missing():
        raise Missing(reason)
    done = subprocess.run(
        [
            RECIPE,
            comex_jobs.BUILD / "global_arrays",
            comex_jobs.LIB,
            comex_jobs.INCLUDE,
            *(["checkprogs"] if ALL else (*PROGRAMS, LENNARD_JONES)),
        ],
        capture_output=True,
        text=True,
        timeout=3600,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 77:
        raise Missing(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-3000:]
    return pathlib.Path(done.stdout.split()[-1])


def suite(build):
    """The programs that `make check` of Global Arrays would run."""
    recipe = "include Makefile\nprint-tests:\n\t@echo $(GLOBAL_PARALLEL_TESTS) $(CXX_PARALLEL_TESTS) $(GLOBAL_THREADED_TESTS)\n"
    done = subprocess.run(
        ["make", "-s", "-f", "-", "print-tests"],
        input=recipe,
        cwd=build,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({each for each in done.stdout.split() if each.endswith(".x")})


def lines_of_the_docs():
    """The build commands of the examples in docs/comex.md: {name: command}, with $PREFIX and $GA."""
    text = (comex_jobs.ROOT / "docs/comex.md").read_text().replace("\\\n", " ")
    return {
        match[1]: match[0] for match in re.finditer(r"^mpicc .*-o (ga_\w+) .*$", text, re.MULTILINE)
    }


def build_example(name, build, folder):
    """An example, built in `folder` by the command in the docs.

    It uses the libraries of the build; a prefix has the same ones in lib.
    """
    prefix = folder / "prefix"
    if not prefix.exists():
        prefix.mkdir()
        (prefix / "lib").symlink_to(comex_jobs.LIB)
        (prefix / "examples").symlink_to(comex_jobs.ROOT / "examples")
    command = (
        lines_of_the_docs()[name]
        .replace("mpicc ", "mpicc -Wall -Wextra -Werror ", 1)
        .replace(f"-o {name} ", f"-o '{folder}/{name}' ")
    )
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=comex_jobs.ROOT,
        env={**os.environ, "PREFIX": str(prefix), "GA": str(build.parent / "prefix")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / name


def build_program(name, build, folder):
    """A program of this folder that uses Global Arrays."""
    prefix, program = build.parent / "prefix", pathlib.Path(folder) / name
    done = subprocess.run(
        [
            "mpicc",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            program,
            comex_jobs.PROGRAMS / f"{name}.c",
            f"-I{prefix}/include",
            f"-L{prefix}/lib",
            f"-L{comex_jobs.LIB}",
            f"-Wl,-rpath,{prefix}/lib:{comex_jobs.LIB}",
            "-lga",
            "-larmci",
            "-lcomex",
            "-lm",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return program


def run_ranks(
    program, rank_count, words=(), limit_s=120, settings=None, nodes="", wrapper=None, inside=()
):
    """Runs in the program's folder, since some programs write files.

    `settings`: environment variables. `nodes`: the node of each rank, for
    comex_jobs.wrapper_for_nodes(). `inside`: a command that runs the launcher.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(comex_jobs.FOREIGN)
    } | comex_jobs.ENVIRONMENT
    return comex_jobs.processes.run(
        [
            *inside,
            "mpirun",
            "-n",
            rank_count,
            "--oversubscribe",
            *([wrapper] if nodes else []),
            program,
            *words,
        ],
        environment | ({"TEST_NODES": nodes} if nodes else {}) | (settings or {}),
        limit_s,
        folder=program.parent,
        patience_s=5.0,
    )
