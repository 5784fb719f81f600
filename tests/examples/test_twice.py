"""The program of README and docs/kernels.md as the build has it."""

import array


def test_numbers_of_a_file_are_doubled(program, tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(array.array("f", range(4096)).tobytes())
    program("twice").pass_run(file)
    assert array.array("f", file.read_bytes()).tolist() == [2.0 * i for i in range(4096)]


def test_a_file_that_is_absent_is_named(program, tmp_path):
    assert "absent: ENOENT" in program("twice").fail_run(tmp_path / "absent")
