"""A graph network whose features stay in a file."""

import re


def accuracies(output):
    return [float(text) for text in re.findall(r": ([0-9.]+) % of the other nodes", output)]


def test_it_learns_from_neighbors(program, store):
    results = accuracies(program("graphsage").pass_run(store, 4096))
    assert len(results) == 3
    assert results[-1] > 85, results


def test_the_file_has_a_row_for_each_node(program, tmp_path):
    program("graphsage").pass_run(tmp_path, 5000)
    assert (tmp_path / "features.f32").stat().st_size == 5000 * 64 * 4


def test_bad_arguments_are_refused(program, tmp_path):
    assert "4096 nodes at least" in program("graphsage").fail_run(tmp_path, 100)
    assert "ENOENT" in program("graphsage").fail_run(tmp_path / "absent")
