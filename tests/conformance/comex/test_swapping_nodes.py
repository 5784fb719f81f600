"""Swapping in jobs of several nodes.

Puts, gets and accumulates of another node do not wake swapped-out processes."""

import json
import os

import comex_jobs
import global_arrays
import pytest
from test_swapping import MEGABYTES, PHASES, RANK_SIZE, sum_of, swapping

# Nodes of the ranks, and the factor by which the ranks of a node exceed its budget, which is at least
# the memory of one rank.
SIZES = [
    ("0 1", 1.2),
    ("0 0 1 1", 1.2),
    ("0 1 0 1", 2),
    ("1 0 0 0 1 1", 3),
    ("0 0 0 0 1 1 1 1", 4),
    pytest.param("0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", 16, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", autouse=True)
def has_fabric():
    if not comex_jobs.has_fabric():
        pytest.skip("nodes reach one another by a fabric: libfabric-dev is not installed")


def reports_of(folder, node_count):
    """The report of each node, by its number."""
    files = [folder / "report.json", *(folder / f"report.json.{i}" for i in range(1, node_count))]
    reports = [json.loads(each.read_text())["nodes"][0] for each in files]
    assert [each["node"] for each in reports] == list(range(node_count))
    return reports


def left_in(folder):
    return {each for each in os.listdir(folder) if not each.startswith("report.json")}


@pytest.mark.parametrize("fabric", ["o2g", pytest.param("tcp;ofi_rxm", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("nodes", "excess"), SIZES)
def test_random_operations_give_what_they_give_in_core(jobs, tmp_path, nodes, excess, fabric):
    each = nodes.split()
    words = [str(len(each)), str(MEGABYTES), str(PHASES)]
    expected = sum_of(jobs.run("random_operations", len(each), words))
    most = max(each.count(node) for node in set(each))
    budget = max(RANK_SIZE + RANK_SIZE // 5, most * RANK_SIZE / excess)
    done = jobs.run(
        "random_operations",
        len(each),
        words,
        nodes=nodes,
        limit_s=300,
        settings=swapping(tmp_path, budget, TND_PGAS_FABRIC=fabric),
    )
    assert sum_of(done) == expected, done.output[-2000:]
    assert left_in(tmp_path) == set()
    reports = reports_of(tmp_path, len(set(each)))
    assert sum(node["ranks"] for node in reports) == len(each)
    for node in reports:
        assert budget >= 0.9 * node["ranks"] * RANK_SIZE or (
            node["swaps_out"] > 0 and node["bytes_out"] > 0
        ), reports


def test_one_rank_of_a_node_at_a_time_is_enough(jobs, tmp_path):
    words = ["9", str(MEGABYTES), "3"]
    expected = sum_of(jobs.run("random_operations", 6, words))
    done = jobs.run(
        "random_operations",
        6,
        words,
        nodes="0 0 0 1 1 1",
        limit_s=300,
        settings=swapping(tmp_path, RANK_SIZE * 1.2, TND_COMEX_SLOTS="1"),
    )
    assert sum_of(done) == expected
    assert all(node["slots"] == 1 and node["requests"] > 0 for node in reports_of(tmp_path, 2))


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
def test_what_works_in_core_works_with_little_memory(jobs, tmp_path, name):
    # As in test_swapping: each rank is a node to ARMCI.
    settings = swapping(
        tmp_path,
        8 << 20,
        TND_COMEX_SWAP_THRESHOLD="4K",
        TND_COMEX_SLOTS="4" if name == "transfers" else "2",
        TEST_PLACES="0 0 1 1",
    )
    done = jobs.run(name, 4, nodes="0 1 2 3", limit_s=120, settings=settings)
    comex_jobs.require_passed(done)


# The ranks with the agents of the first and second node, and another rank of each.
@pytest.mark.parametrize("who", ["0 9", "2 9", "1 9", "3 15"])
def test_a_rank_that_dies_ends_the_job(jobs, tmp_path, who):
    done = jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "100000"],
        nodes="0 0 1 1",
        limit_s=60,
        settings=swapping(tmp_path, RANK_SIZE * 1.3, TEST_DIES=who),
    )
    assert done.status == "failed" and done.code != 0 and done.left == 0, done
    assert left_in(tmp_path) == set()


def test_a_store_that_is_full_ends_the_job_with_a_line(jobs, tmp_path):
    """Limits file sizes; the files of both nodes reach the limit at about the same time."""
    done = jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "20"],
        nodes="0 0 1 1",
        limit_s=60,
        settings=swapping(tmp_path, RANK_SIZE * 1.3, TEST_FILE_SIZE=str(1 << 20)),
    )
    assert done.status == "failed" and done.code != 0 and done.left == 0, done
    lines = [line for line in done.output.splitlines() if "TND_COMEX_SWAP=" in line]
    assert 1 <= len(lines) <= 2, done.output[-3000:]
    assert left_in(tmp_path) == set()


def test_memory_leaves_after_the_last_call(jobs, tmp_path):
    settings = {
        "TND_COMEX_MEMORY": str(10 << 20),
        "TND_COMEX_RESERVE": "0",
        "TND_COMEX_HEAP": "32M",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    comex_jobs.require_passed(
        jobs.run(
            "after_finalize", 4, ["8", "0", "0"], nodes="0 0 1 1", limit_s=120, settings=settings
        )
    )
    comex_jobs.require_passed(
        jobs.run(
            "after_finalize", 3, ["8", "0", "1"], nodes="0 1 1", limit_s=120, settings=settings
        )
    )


def test_a_trace_is_written_for_each_node(jobs, tmp_path):
    trace = tmp_path / "trace.json"
    jobs.run(
        "random_operations",
        4,
        ["1", str(MEGABYTES), "2"],
        nodes="0 1 0 1",
        settings=swapping(tmp_path, RANK_SIZE * 1.3, TND_COMEX_TRACE=str(trace)),
    )
    for node, ranks in ((trace, "02"), (tmp_path / "trace.json.1", "13")):
        events = json.loads(node.read_text())
        assert {each["args"]["name"] for each in events if each["name"] == "thread_name"} == {
            f"process {rank}" for rank in ranks
        }
        assert {"Running", "SwapOut", "Swapped", "SwapIn"} <= {each["name"] for each in events}


@pytest.mark.parametrize("name", ["lock.x", "elempatch.x", "getmem.x"])
def test_a_program_of_global_arrays_has_less_memory_than_it_needs(build, tmp_path, name):
    done = global_arrays.run_ranks(
        build / "global/testing" / name,
        4,
        limit_s=300,
        settings=swapping(tmp_path, 40 << 20),
        nodes="0 0 1 1",
        wrapper=comex_jobs.wrapper_for_nodes(tmp_path),
    )
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    assert all(node["swaps_out"] > 2 for node in reports_of(tmp_path, 2))


@pytest.mark.parametrize(
    ("name", "words", "budget"),
    [
        ("ga_stencil9", ("--size", 1600, "--steps", 20, "--block", 10), 48 << 20),
        ("ga_dgemm", ("--size", 700, "--buffer", 2), 48 << 20),
    ],
)
def test_the_examples_give_what_they_give_in_core(build, tmp_path, name, words, budget):
    program = global_arrays.build_example(name, build, tmp_path)

    def checksum(**more):
        done = global_arrays.run_ranks(program, 4, (*words, "--json"), limit_s=300, **more)
        assert done.status == "passed" and done.left == 0, (
            f"{done.status}, {done.code}\n{done.output[-3000:]}"
        )
        return json.loads([line for line in done.output.splitlines() if line.startswith("{")][-1])[
            "checksum"
        ]

    on_nodes = checksum(
        settings=swapping(tmp_path, budget),
        nodes="0 0 1 1",
        wrapper=comex_jobs.wrapper_for_nodes(tmp_path),
    )
    assert on_nodes == checksum()
    assert all(node["swaps_out"] > 2 for node in reports_of(tmp_path, 2))
