"""Unmodified Global Arrays on our ARMCI, with 4 ranks.

Some of its programs, or with TND_COMEX_ALL all of them."""

import json
import re

import comex_jobs
import pytest
from global_arrays import ALL, LENNARD_JONES, PROGRAMS, RECIPE, build_program, run_ranks, suite

# With four ranks on two processors these exceed the time limit, with every ARMCI that was tried.
SLOW = {"global/testing/cache_test.x", "global/testing/laplace.x", "global/testing/sprs_test.x"}
LIMIT_S = 150
# These end in seconds with memory for about one of four ranks: locks, messages, collective calls
# and groups of all kinds.
TIGHT = (
    "global/testing/lock.x",
    "global/testing/ga-mpi.x",
    "global/testing/normc.x",
    "global/testing/mtest.x",
    "global/testing/pgtest.x",
)


def test_the_recipe_runs_the_lines_of_the_docs():
    """RECIPE configures Global Arrays as docs/comex.md does, with its own folders for the prefix."""
    line = re.search(
        r"^\./configure (.*?)^make",
        (comex_jobs.ROOT / "docs/comex.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )[1]
    line = line.replace("$PREFIX/include/comex", "$headers").replace("$PREFIX/lib", "$libraries")
    words = " ".join(line.replace("\\\n", " ").split())
    assert words in " ".join(RECIPE.read_text().replace("\\\n", " ").split())


def run(build, program, rank_count=4):
    return run_ranks(build / program, rank_count, limit_s=LIMIT_S)


@pytest.mark.parametrize("rank_count", [1, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_global_arrays(build, program, rank_count):
    done = run(build, program, rank_count)
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )


def test_lennard_jones_keeps_its_energy(build):
    """256 atoms, 4 ranks, unmodified.

    Fetch-and-add assigns the blocks and accumulates sum the forces; the total depends on both.
    """
    done = run(build, LENNARD_JONES)
    assert done.status == "passed", f"{done.status}, {done.code}\n{done.output[-3000:]}"
    assert float(re.search(r"Energy Fluctuation\s*=\s*([0-9.]+)", done.output)[1]) < 0.05, (
        done.output[-1000:]
    )


@pytest.mark.parametrize("program", TIGHT)
def test_a_program_with_memory_for_one_rank(build, tmp_path, program):
    if not (build / program).exists():
        pytest.skip("make test-ga builds it")
    settings = {
        "TND_COMEX_MEMORY": "56M",
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
        "TND_COMEX_REPORT": str(tmp_path / "report"),
    }
    done = run_ranks(build / program, 4, limit_s=LIMIT_S, settings=settings)
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    (report,) = json.loads((tmp_path / "report").read_text())["nodes"]
    assert report["swaps_out"] > 4


@pytest.mark.parametrize(("rank_count", "nodes"), [(1, ""), (2, ""), (4, ""), (4, "0 1 0 1")])
def test_arrays_in_memory_of_devices(build, tmp_path, rank_count, nodes):
    """Without a GPU this is memory of the host executor, which processors cannot access then.

    So Global Arrays itself must not access the content of an array.
    """
    if nodes and not comex_jobs.has_fabric():
        pytest.skip("nodes reach one another by a fabric: libfabric-dev is not installed")
    done = run_ranks(
        build_program("ga_device", build, tmp_path),
        rank_count,
        settings={"TND_COMEX_DEVICE_HEAP": "4M", "TND_HOST_DEVICE": "guarded"},
        nodes=nodes,
        wrapper=comex_jobs.wrapper_for_nodes(tmp_path),
    )
    assert done.status == "passed" and "passed" in done.output and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )


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
