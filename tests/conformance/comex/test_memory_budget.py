"""All memory of a job's ranks stays within TND_COMEX_MEMORY, from their start to their end.

Jobs run in a control group of 1.25 times the budget, as in docs/comex.md: a job that uses more is
killed."""

import json

import global_arrays
import memory_cgroup
import pytest

MEBIBYTE = 1 << 20


def check(budget, folder, run):
    """run(settings, inside): a job that needs more than the budget."""
    group = memory_cgroup.make(budget * 5 // 4)
    if group is None:
        pytest.skip("no control group of memory can be made here")
    settings = {
        "TND_COMEX_MEMORY": str(budget),
        "TND_COMEX_SWAP": f"file://{folder}",
        "TND_COMEX_REPORT": str(folder / "report"),
    }
    with group:
        done = run(settings, [memory_cgroup.wrapper(group, folder)])
        kills = group.kills()
    assert kills == 0, (
        f"killed in a group of {budget * 5 // 4} bytes, which held {group.peak}: {done.output[-2000:]}"
    )
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    (node,) = json.loads((folder / "report").read_text())["nodes"]
    print(f"budget {budget / MEBIBYTE:.0f} MiB, held at most {group.peak / MEBIBYTE:.1f}; {node}")
    assert group.peak <= 1.05 * budget
    assert (
        node["swaps_out"] > 0
        and node["beyond_budget"] == 0
        and node["budget_held"]
        and node["peak"] <= budget
    ), node
    assert "the budget was kept" in done.output


@pytest.mark.parametrize(
    ("name", "words", "mebibytes"),
    [
        ("polls", ("40", "3", "tasks"), 96),
        pytest.param("polls", ("60", "2", "counter"), 160, marks=pytest.mark.slow),
        ("after_finalize", ("24", "1", "0"), 64),
        # The memory of two ranks is 176 MiB.
        ("large_receive", ("64", "24", "blocking"), 160),
        pytest.param("large_receive", ("64", "24", "started"), 160, marks=pytest.mark.slow),
        pytest.param("large_receive", ("64", "24", "armci"), 160, marks=pytest.mark.slow),
    ],
)
def test_a_program_keeps_the_budget(jobs, tmp_path, name, words, mebibytes):
    check(
        mebibytes * MEBIBYTE,
        tmp_path,
        lambda settings, inside: jobs.run(
            name, 4, words, limit_s=240, settings=settings, inside=inside
        ),
    )


def test_two_ranks_exchange_large_messages_by_every_call(jobs, tmp_path):
    """Each rank has 40 MiB; the budget holds little more than one rank."""
    check(
        80 * MEBIBYTE,
        tmp_path,
        lambda settings, inside: jobs.run(
            "large_messages", 2, ("12", "16"), limit_s=120, settings=settings, inside=inside
        ),
    )


def test_a_message_that_keeps_two_ranks_in_memory_exceeds_the_budget_by_what_they_have(
    jobs, tmp_path
):
    """With a derived datatype both ranks keep their 88 MiB resident, besides unswappable memory."""
    budget = 160 * MEBIBYTE
    settings = {
        "TND_COMEX_MEMORY": str(budget),
        "TND_COMEX_SWAP": f"file://{tmp_path}",
        "TND_COMEX_REPORT": str(tmp_path / "report"),
    }
    done = jobs.run("large_receive", 4, ("64", "24", "derived"), limit_s=60, settings=settings)
    assert done.status == "passed" and done.left == 0, f"{done.status}\n{done.output[-3000:]}"
    (node,) = json.loads((tmp_path / "report").read_text())["nodes"]
    assert node["beyond_budget"] > 0 and not node["budget_held"], node
    assert budget < node["peak"] <= 1.05 * (2 * 88 * MEBIBYTE + node["reserved"]), node
    assert done.output.count("processes that must not leave memory fill") == 1
    assert "the budget was exceeded" in done.output


@pytest.mark.parametrize("mebibytes", [80, 96])
def test_global_arrays_keeps_the_budget(build, tmp_path, mebibytes):
    """GA_Initialize allocates tables of 28 MiB a rank, and creates communicators with them resident."""

    def run(settings, inside):
        return global_arrays.run_ranks(
            build / "global/testing/lock.x", 4, limit_s=60, settings=settings, inside=inside
        )

    check(mebibytes * MEBIBYTE, tmp_path, run)
