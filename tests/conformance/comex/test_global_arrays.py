"""Global Arrays, as its source is, on our ARMCI: three of its programs; with TND_COMEX_ALL all of them, 4 ranks each."""
import os
import pathlib
import re
import subprocess

import pytest

import comex_jobs

RECIPE = comex_jobs.ROOT / "tools/comex/global_arrays.sh"
PROGRAMS = ("global/testing/lock.x", "global/testing/getmem.x", "global/testing/elempatch.x")
ALL = "TND_COMEX_ALL" in os.environ
# Of the suite, four ranks on two processors: these take longer than the limit there, with every ARMCI that was tried.
SLOW = {"global/testing/cache_test.x", "global/testing/laplace.x", "global/testing/sprs_test.x"}
LIMIT_S = 150


def make_global_arrays():
    """The folder of its build. Kept beside our own, so that only the first run takes minutes."""
    done = subprocess.run([RECIPE, comex_jobs.BUILD / "global_arrays", comex_jobs.LIB, comex_jobs.INCLUDE,
                           *(["checkprogs"] if ALL else PROGRAMS)],
                          capture_output=True, text=True, timeout=3600, stdin=subprocess.DEVNULL)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr[-3000:]
    return pathlib.Path(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def build():
    reason = comex_jobs.missing()
    if reason:
        pytest.skip(reason)
    return make_global_arrays()


def suite(build):
    """What `make check` would run of Global Arrays itself."""
    recipe = "include Makefile\nprint-tests:\n\t@echo $(GLOBAL_PARALLEL_TESTS) $(CXX_PARALLEL_TESTS) $(GLOBAL_THREADED_TESTS)\n"
    said = subprocess.run(["make", "-s", "-f", "-", "print-tests"], input=recipe, cwd=build, capture_output=True, text=True, check=True)
    return sorted({each for each in said.stdout.split() if each.endswith(".x")})


def run(build, program, rank_count=4):
    return comex_jobs.processes.run(["mpirun", "-n", str(rank_count), "--oversubscribe", build / program],
                                    {**os.environ, **comex_jobs.ENVIRONMENT}, LIMIT_S, patience_s=5.0)


def test_the_recipe_runs_the_lines_of_the_docs():
    """What docs/comex.md tells to configure Global Arrays with is what RECIPE does, whose folders stand for a prefix's."""
    told = re.search(r"^\./configure (.*?)^make", (comex_jobs.ROOT / "docs/comex.md").read_text(), re.DOTALL | re.MULTILINE)[1]
    told = told.replace("$PREFIX/include/comex", "$headers").replace("$PREFIX/lib", "$libraries")
    words = " ".join(told.replace("\\\n", " ").split())
    assert words in " ".join(RECIPE.read_text().replace("\\\n", " ").split())


@pytest.mark.parametrize("rank_count", [1, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_global_arrays(build, program, rank_count):
    done = run(build, program, rank_count)
    assert done.status == "passed" and done.left == 0, f"{done.status}, {done.code}\n{done.output[-3000:]}"


@pytest.mark.skipif(not ALL, reason="make test-ga runs the whole suite")
def test_the_suite_of_global_arrays(build):
    failed = {}
    programs = suite(build)
    for program in programs:
        if not (build / program).exists():
            failed[program] = "was not built"
            continue
        done = run(build, program)
        print(f"{program} {done.status} {done.seconds:.1f} s", flush=True)
        if done.status != "passed" and not (done.status == "hangs" and program in SLOW):
            failed[program] = f"{done.status}, {done.code}: {done.output[-300:]}"
    assert len(programs) > 70 and not failed, failed
