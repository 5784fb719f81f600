"""The Global Arrays examples, built by the commands in the docs: results for any rank count."""

import json

import global_arrays
import pytest

STENCIL, DGEMM = "ga_stencil9", "ga_dgemm"
# Sizes that are no multiples of the rank count.
GRID = ("--size", 211, "--steps", 23)
MATRIX = ("--size", 203, "--buffer", 2)


@pytest.fixture(scope="module")
def example(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    made = {}

    def run(name, rank_count, *words):
        if name not in made:
            made[name] = global_arrays.build_example(name, build, folder)
        return global_arrays.run_ranks(made[name], rank_count, words)

    return run


def found(done):
    assert done.status == "passed" and done.left == 0, (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    return json.loads([line for line in done.output.splitlines() if line.startswith("{")][-1])


@pytest.mark.parametrize(
    "rank_count, block", [(1, 1), (1, 10), (2, 3), (3, 23), (4, 1), (4, 10), (6, 40)]
)
def test_the_stencil_does_not_depend_on_ranks_nor_blocking(example, rank_count, block):
    """40 steps at once are more than the total; 23 is no multiple of 10."""
    result = found(example(STENCIL, rank_count, *GRID, "--block", block, "--check", "--json"))
    assert result["check"] == "agrees" and result["checksum"] == "9def7fb31dd7221f"


@pytest.mark.parametrize("rank_count", [1, 2, 4, 6])
def test_the_product_does_not_depend_on_ranks(example, rank_count):
    result = found(example(DGEMM, rank_count, *MATRIX, "--check", "--json"))
    assert result["check"] == "agrees" and result["checksum"] == "6002df701577bbe4"


@pytest.mark.parametrize(
    "name, words",
    [(STENCIL, (*GRID, "--block", 4, "--check")), (DGEMM, MATRIX), (DGEMM, (*MATRIX, "--check"))],
)
def test_the_checks_find_a_planted_error(example, name, words):
    done = example(name, 4, *words, "--plant")
    assert done.status == "failed" and "DIFFERS" in done.output, done.output[-2000:]


@pytest.mark.parametrize(
    "name, words",
    [
        (STENCIL, ("--size", "many")),
        (STENCIL, ("--block", 0)),
        (STENCIL, ("--size", 9000, "--check")),
        (DGEMM, ("--size", 1 << 17)),
        (DGEMM, ("--size", 4000, "--check")),
        (DGEMM, ("more",)),
    ],
)
def test_words_that_make_no_sense(example, name, words):
    done = example(name, 2, *words)
    assert done.status == "failed" and f"usage: {name}" in done.output
    assert done.code == 2


def test_a_block_that_neighbours_cannot_give(example):
    done = example(STENCIL, 4, "--size", 20, "--block", 11)
    assert done.status == "failed" and "larger than the smallest block" in done.output
