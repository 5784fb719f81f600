"""Figure 4 of the paper."""

import re
import struct


def test_sum_over_a_store(program, store):
    assert program("vector_add").pass_run(store) == "c = a + b\n"


def test_the_device_is_named_apart_from_the_output(program, tmp_path):
    added = program("vector_add")
    done = added.run(tmp_path)
    (name,) = re.findall(r"^device: (.+)$", done.stderr, re.MULTILINE)
    assert name.startswith("host executor") != added.path.name.endswith("_cuda"), name
    assert done.stdout == "c = a + b\n"


def test_the_file_holds_the_sum(program, tmp_path):
    program("vector_add").pass_run(tmp_path)
    written = (tmp_path / "c.f32").read_bytes()
    assert struct.unpack("<1024f", written) == tuple(1.5 * i for i in range(1024))


def test_a_longer_file_is_cut(program, tmp_path):
    (tmp_path / "c.f32").write_bytes(b"x" * 100000)
    program("vector_add").pass_run(tmp_path)
    assert (tmp_path / "c.f32").stat().st_size == 4096


def test_a_store_that_is_not_there(program, tmp_path):
    assert "ENOENT" in program("vector_add").fail_run(tmp_path / "absent")


def test_a_scheme_that_nobody_knows(program):
    assert "EINVAL" in program("vector_add").fail_run("nothing://here")
