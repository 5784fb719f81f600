"""The model of bench/shmem/scale.py: its times are those that the steps of an operation add up to,
and costs are found again from rows that the model itself gave."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/shmem"))

import scale  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
PROGRAM = BUILD / "bin/shmem_scale_model"
NOTHING = dict.fromkeys((*scale.MEMORY_COSTS, *scale.NETWORK_COSTS, "byte"), 0.0)


@pytest.fixture
def model():
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not there: build the target bench")
    return scale.Model(PROGRAM)


def last_us(model, costs, question):
    ((last, _),) = model.ask({**NOTHING, "processors": 128, **costs}, [question])
    return last


MESSAGE = {"send": 1, "receive": 2, "latency": 10}


@pytest.mark.parametrize(
    ("question", "messages"),
    [
        ("barrier 0 8 8 8 0", 3),  # dissemination in 3 rounds
        ("barrier 0 9 9 9 0", 4),
        ("barrier 0 100 4 4 0", 2),  # between the leaders of 4 nodes
        ("reduce 8 64 64 64 0", 6),  # a gather
    ],
)
def test_rounds_follow_one_another(model, question, messages):
    assert last_us(model, MESSAGE, question) == pytest.approx(13 * messages)


def test_doubling_takes_a_step_for_each_power_of_two(model):
    assert last_us(model, {"latency": 10}, "reduce 8 4096 4096 4096 0") == pytest.approx(12 * 10)
    # One of 17 members first sends its elements to another.
    assert last_us(model, {"latency": 10}, "reduce 1024 17 17 17 0") == pytest.approx(5 * 10)


def test_a_tree_goes_up_and_down_again(model):
    """PEs that share processors take a tree."""
    went = last_us(model, {"latency": 10, "processors": 2}, "reduce 8 16 16 1 0")
    assert went == pytest.approx(2 * 4 * 10)


def test_processors_of_a_host_are_shared(model):
    alone = last_us(model, {"call": 5, "processors": 64}, "barrier 0 64 64 1 0")
    shared = last_us(model, {"call": 5, "processors": 2}, "barrier 0 64 64 1 0")
    assert (alone, shared) == (pytest.approx(5), pytest.approx(160))


def test_bytes_follow_one_another_on_a_network_interface(model):
    blocks = last_us(model, {"byte": 0.5}, "alltoall 64 4 4 1 0")
    assert blocks == pytest.approx(4 * 3 * 64 * 0.5)


@pytest.mark.parametrize("size", [8, 1024])
def test_alltoalls_of_many_pes_cost_what_the_simulation_has_for_fewer(model, size):
    costs = {**NOTHING, **MESSAGE, "byte": 0.001, "processors": 16}
    simulated, estimated = model.ask(
        costs, [f"{name} {size} 256 16 16 0" for name in ("alltoall", "alltoall_of_many")]
    )
    assert estimated[0] == pytest.approx(simulated[0], rel=0.15)


def test_costs_are_found_again(model):
    true = {**scale.MEMORY_COSTS, "wake": 3.0, "resume": 0.7, "read": 0.2}
    keys = [("node", pes, name) for pes in (2, 4, 8, 16, 32) for name in scale.OPERATIONS]
    measured = dict(zip(keys, model.means(true, keys)))
    found = scale.fit(model, dict(scale.MEMORY_COSTS), scale.MEMORY_COSTS, measured, "node")
    held_out = [key for key in keys if scale.is_held_out(key[1])]
    assert held_out
    for key, mean in zip(held_out, model.means(found, held_out)):
        assert scale.error(measured[key], mean) < 0.25, key


@pytest.mark.parametrize("line", ["barrier", "sum 8 4 1 1 0", "reduce 3 4 1 1 0", "memory 0"])
def test_a_line_that_cannot_be_read_is_named(line):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not there: build the target bench")
    done = subprocess.run([PROGRAM], input=line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f'cannot read "{line}"' in done.stderr


def test_an_unknown_cost_is_named():
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not there: build the target bench")
    done = subprocess.run([PROGRAM, "sned=1"], input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and 'unknown cost "sned=1"' in done.stderr
