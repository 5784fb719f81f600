"""The program of README and docs/kernels.md, as built here."""

import array

import pytest


def test_numbers_of_a_file_are_doubled(program, tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(array.array("f", range(4096)).tobytes())
    program("twice").pass_run(file)
    assert array.array("f", file.read_bytes()).tolist() == [2.0 * i for i in range(4096)]


@pytest.mark.parametrize(
    "number_count, tail", [(0, b""), (1, b""), (3000, b"\1\2\3"), (5000, b"x")]
)
def test_a_file_of_another_size_keeps_its_size_and_the_rest(program, tmp_path, number_count, tail):
    file = tmp_path / "numbers"
    file.write_bytes(array.array("f", range(number_count)).tobytes() + tail)
    program("twice").pass_run(file)
    expected = [i * (2.0 if i < 4096 else 1.0) for i in range(number_count)]
    assert file.read_bytes() == array.array("f", expected).tobytes() + tail


def test_a_file_that_is_absent_is_named(program, tmp_path):
    assert "absent: ENOENT" in program("twice").fail_run(tmp_path / "absent")
