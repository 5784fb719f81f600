"""Swapping: results are those of the run in core, and a failure ends the job with one line."""

import json
import os
import re

import comex_jobs
import global_arrays
import pytest

# Remotely accessible memory of each rank, which allocates about as much again, and has a model of it.
MEGABYTES = 2
RANK_SIZE = 5 << 20  # bytes that a rank allocates at most
PHASES = 4
# Ranks, and the factor by which they exceed the budget, which is at least the memory of one rank.
SIZES = [
    (1, 1.2),
    pytest.param(2, 1.2, marks=pytest.mark.slow),
    pytest.param(3, 2, marks=pytest.mark.slow),
    (4, 3.5),
    pytest.param(8, 7, marks=pytest.mark.slow),
    pytest.param(16, 16, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("swap")


def swapping(folder, budget, **more):
    """A budget of a few megabytes, only for arrays: MPI itself uses more.

    test_memory_budget.py tests budgets for all memory of a job.
    """
    return {
        "TND_COMEX_MEMORY": str(int(budget)),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_SWAP": f"file://{folder}",
        "TND_COMEX_REPORT": str(folder / "report.json"),
        **more,
    }


def sum_of(done):
    comex_jobs.require_passed(done)
    return re.search(r"^sum (\w+)$", done.output, re.MULTILINE)[1]


def report_of(folder):
    (report,) = json.loads((folder / "report.json").read_text())["nodes"]
    return report


@pytest.mark.parametrize(("rank_count", "excess"), SIZES)
def test_random_operations_give_what_they_give_in_core(jobs, folder, rank_count, excess):
    words = [str(rank_count), str(MEGABYTES), str(PHASES)]
    expected = sum_of(jobs.run("random_operations", rank_count, words))
    budget = max(RANK_SIZE + RANK_SIZE // 5, rank_count * RANK_SIZE / excess)
    done = jobs.run(
        "random_operations", rank_count, words, limit_s=300, settings=swapping(folder, budget)
    )
    assert sum_of(done) == expected, done.output[-2000:]
    assert set(os.listdir(folder)) <= {"report.json"}
    if budget < 0.9 * rank_count * RANK_SIZE:
        report = report_of(folder)
        assert (
            report["swaps_out"] > 0 and report["bytes_out"] > 0 and report["ranks"] == rank_count
        ), report


@pytest.mark.skipif("TND_COMEX_ALL" not in os.environ, reason="make test-ga runs 64 ranks")
def test_sixty_four_ranks_give_what_they_give_in_core(jobs, folder):
    words = ["64", "1", "2"]
    expected = sum_of(jobs.run("random_operations", 64, words, limit_s=300))
    done = jobs.run(
        "random_operations", 64, words, limit_s=900, settings=swapping(folder, 16 << 20)
    )
    assert sum_of(done) == expected


def test_ranks_that_never_go_on_without_their_memory(jobs, folder):
    words = ["4", str(MEGABYTES), str(PHASES)]
    expected = sum_of(jobs.run("random_operations", 4, words))
    assert (
        sum_of(
            jobs.run(
                "random_operations",
                4,
                words,
                limit_s=300,
                settings=swapping(folder, RANK_SIZE * 1.2, TND_COMEX_WHOLE="1"),
            )
        )
        == expected
    )


def test_one_rank_at_a_time_is_enough(jobs, folder):
    words = ["9", str(MEGABYTES), "3"]
    expected = sum_of(jobs.run("random_operations", 4, words))
    done = jobs.run(
        "random_operations",
        4,
        words,
        limit_s=300,
        settings=swapping(folder, RANK_SIZE * 1.2, TND_COMEX_SLOTS="1"),
    )
    assert sum_of(done) == expected
    assert report_of(folder)["slots"] == 1


@pytest.mark.parametrize(
    "name",
    [
        "broadcast",
        "groups",
        "messages",
        pytest.param("reduce", marks=pytest.mark.slow),
        pytest.param("select", marks=pytest.mark.slow),
        "transfers",
    ],
)
def test_what_works_in_core_works_with_little_memory(jobs, folder, name):
    # To ARMCI each rank is a node; transfers polls its own memory until others have written there.
    slots = "4" if name == "transfers" else "2"
    settings = swapping(
        folder, 8 << 20, TND_COMEX_SWAP_THRESHOLD="4K", TEST_NODES="0 1 2 3", TND_COMEX_SLOTS=slots
    )
    comex_jobs.require_passed(jobs.run(name, 4, limit_s=120, settings=settings))


def test_memory_that_is_not_touched_stays_in_the_store(jobs, folder):
    """Memory for one of four ranks. Without userfaultfd all of it comes each time."""
    moved = {}
    for whole in ("0", "1"):
        settings = swapping(folder, 12 << 20, TND_COMEX_WHOLE=whole)
        comex_jobs.require_passed(jobs.run("cold_table", 4, settings=settings))
        report = report_of(folder)
        moved[whole] = report["bytes_in"] + report["bytes_served"]
        if whole == "0" and not report["by_pages"]:
            pytest.skip("the system does not report page faults")
        assert (report["bytes_left_out"] > 0) == (whole == "0"), report
    assert moved["0"] < moved["1"] / 2, moved


@pytest.mark.parametrize("waiting", ["tasks", pytest.param("counter", marks=pytest.mark.slow)])
def test_ranks_that_poll_by_calls_do_not_starve_the_one_they_wait_for(jobs, folder, waiting):
    done = jobs.run(
        "polls", 4, ["40", "6", waiting], limit_s=120, settings=swapping(folder, 140 << 20)
    )
    comex_jobs.require_passed(done)
    assert report_of(folder)["swaps_out"] > 0


def test_containers_of_cpp_hold_what_they_hold_in_core(jobs, folder):
    words = ["5", "20"]
    expected = sum_of(jobs.run("containers", 4, words))
    done = jobs.run("containers", 4, words, limit_s=300, settings=swapping(folder, 24 << 20))
    assert sum_of(done) == expected
    assert report_of(folder)["swaps_out"] > 4


@pytest.mark.skipif(
    comex_jobs.libclang() is None,
    reason="there is no libclang: apt-get install libclang-dev, which make test-ga does",
)
def test_a_large_program_of_cpp_gives_what_it_gives_in_core(jobs, folder):
    """A compiler in each of three ranks, each with about 70 MiB of small allocations."""
    expected = sum_of(jobs.run("compiler", 3, ["2"], limit_s=120))
    done = jobs.run(
        "compiler",
        3,
        ["2"],
        limit_s=300,
        settings=swapping(folder, 140 << 20, TND_COMEX_SWAP_THRESHOLD="4K"),
    )
    assert sum_of(done) == expected
    assert report_of(folder)["swaps_out"] > 4 and report_of(folder)["bytes_out"] > 128 << 20


def test_a_program_of_global_arrays_has_less_memory_than_it_needs(build, folder):
    """Four ranks of about 28 MiB each; one of them is resident at a time."""
    done = global_arrays.run_ranks(
        build / "global/testing/lock.x", 4, settings=swapping(folder, 40 << 20)
    )
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    assert report_of(folder)["swaps_out"] > 4


@pytest.mark.parametrize(
    ("name", "words", "budget"),
    [
        ("ga_stencil9", ("--size", 1600, "--steps", 9, "--block", 4), 64 << 20),
        ("ga_dgemm", ("--size", 700, "--buffer", 2), 64 << 20),
    ],
)
def test_the_examples_give_what_they_give_in_core(build, folder, tmp_path, name, words, budget):
    program = global_arrays.build_example(name, build, tmp_path)

    def checksum(**more):
        done = global_arrays.run_ranks(program, 4, (*words, "--json"), **more)
        assert done.status == "passed" and done.left == 0, (
            f"{done.status}, {done.code}\n{done.output[-3000:]}"
        )
        return json.loads([line for line in done.output.splitlines() if line.startswith("{")][-1])[
            "checksum"
        ]

    assert checksum(settings=swapping(folder, budget)) == checksum()
    assert report_of(folder)["swaps_out"] > 4


def test_a_trace_is_written(jobs, folder):
    trace = folder / "trace.json"
    jobs.run(
        "random_operations",
        3,
        ["1", str(MEGABYTES), "2"],
        settings=swapping(folder, RANK_SIZE * 1.3, TND_COMEX_TRACE=str(trace)),
    )
    events = json.loads(trace.read_text())
    names = {
        each["name"] for each in (events if isinstance(events, list) else events["traceEvents"])
    }
    assert {"Running", "SwapOut", "Swapped", "SwapIn"} <= names
    trace.unlink()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"TND_COMEX_MEMORY": "64M"}, r"TND_COMEX_SWAP is not set"),
        ({"TND_COMEX_SWAP": "file:///tmp"}, r"TND_COMEX_MEMORY is not set"),
        ({"TND_COMEX_MEMORY": "64M", "TND_COMEX_SWAP": "file:///proc/none"}, r"/proc/none"),
        (
            {"TND_COMEX_MEMORY": "64M", "TND_COMEX_SWAP": "file:///tmp", "TND_COMEX_SLOTS": "0"},
            r"TND_COMEX_SLOTS",
        ),
        (
            {"TND_COMEX_MEMORY": "1M", "TND_COMEX_SWAP": "file:///tmp", "TND_COMEX_RESERVE": "0"},
            r"more than the 1048576 of TND_COMEX_MEMORY",
        ),
        (
            {"TND_COMEX_MEMORY": "1M", "TND_COMEX_SWAP": "file:///tmp"},
            r"TND_COMEX_MEMORY=1048576 is too small for the 2 ranks of a node: \d+ bytes",
        ),
    ],
)
def test_what_cannot_be_is_told(jobs, settings, line):
    done = jobs.run(
        "random_operations", 2, ["1", str(MEGABYTES), "1"], limit_s=60, settings=settings
    )
    assert done.status == "failed" and done.left == 0, done
    assert re.search(line, done.output), done.output[-2000:]
    if "more than" not in line:  # each rank logs this in its own allocation
        assert len(re.findall(line, done.output)) <= 2, (
            "one rank of a node reports it, in its log and by the call"
        )


# Ranks that die while memory moves: the one with the agent, and another; by a signal that cannot be
# handled, and by the one that launchers send.
@pytest.mark.parametrize("who", ["0 9", "2 9", "1 15"])
def test_a_rank_that_dies_ends_the_job(jobs, folder, who):
    done = jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "100000"],
        limit_s=60,
        settings=swapping(folder, RANK_SIZE * 1.3, TEST_DIES=who),
    )
    assert done.status == "failed" and done.code != 0 and done.left == 0, done
    assert not set(os.listdir(folder)) - {"report.json"}


def test_a_launcher_that_is_told_to_end_ends_the_job(jobs, folder):
    done = jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "100000"],
        limit_s=60,
        settings=swapping(folder, RANK_SIZE * 1.3, TEST_LAUNCHER_DIES="1"),
    )
    assert done.status == "failed" and done.code != 0 and done.left == 0, done
    assert not set(os.listdir(folder)) - {"report.json"}


def test_a_store_that_is_full_ends_the_job_with_one_line(jobs, folder):
    """A limit on file sizes simulates a full file system; the files exist before."""
    done = jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "20"],
        limit_s=60,
        settings=swapping(folder, RANK_SIZE * 1.3, TEST_FILE_SIZE=str(1 << 20)),
    )
    assert done.status == "failed" and done.code != 0 and done.left == 0, done
    lines = [line for line in done.output.splitlines() if "TND_COMEX_SWAP=" in line]
    assert len(lines) == 1, done.output[-3000:]
    assert not set(os.listdir(folder)) - {"report.json"}


# Two processes; the budget holds little more than one.
PARTS = ["bottom", "results", "function", "order", "collectives", "windows", "files", "returned"]


@pytest.mark.parametrize("part", PARTS)
def test_what_mpi_has_of_a_program_stays(jobs, folder, part):
    settings = swapping(folder, 34 << 20, TND_COMEX_HEAP="64M", TND_COMEX_SLOTS="1")
    done = jobs.run("program_calls", 2, [part, str(folder / "file")], limit_s=60, settings=settings)
    comex_jobs.require_passed(done)
    assert report_of(folder)["swaps_out"] > 0
    if part == "returned":  # after that, each of six turns takes the memory of the other
        assert report_of(folder)["bytes_out"] > 4 * (24 << 20)


def test_fortrans_names_of_mpis_calls_lead_somewhere(jobs, folder):
    comex_jobs.require_passed(jobs.run("fortran_names", 3, limit_s=60))
    comex_jobs.require_passed(
        jobs.run(
            "fortran_names",
            3,
            limit_s=60,
            settings=swapping(folder, 64 << 20, TND_COMEX_HEAP="64M"),
        )
    )


@pytest.mark.parametrize("part", PARTS)
def test_the_same_in_core(jobs, folder, part):
    comex_jobs.require_passed(
        jobs.run("program_calls", 2, [part, str(folder / "file")], limit_s=60)
    )
