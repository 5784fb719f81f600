"""The FDTD program: its physics, its files, its picture, and that its checks can fail."""
import json
import resource
import signal
import struct
import zlib

import numpy
import pytest

SIZE = 32
HEADER = 64       # of a map of materials
NPY_HEADER = 128  # of a snapshot


def png_rows(path):
    """Width, height and the colours of a PNG of 8-bit RGB, without its filters undone: enough to tell it is no blank."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, color = struct.unpack(">IIBB", data[16:26])
    assert (depth, color) == (8, 2)
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return width, height, zlib.decompress(packed)


def read_field(path):
    """Step, by the name, and the cells of a snapshot, which NumPy reads as a user would."""
    field = numpy.load(path)
    assert field.dtype == "<f4" and len(set(field.shape)) == 1 and path.stat().st_size == NPY_HEADER + field.nbytes
    return int(path.stem.removeprefix("ez-")), field


def run_small(program, tmp_path, *words):
    return program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", *words)


def test_whole_run_over_a_store(program, store, tmp_path):
    said = run_small(program, tmp_path, "--steps", 25, "--store", store)
    assert "equals the field in every cell" in said
    told = json.loads((tmp_path / "out/timings.json").read_text())
    assert (told["size"], told["steps"], told["snapshots"]) == (SIZE, 25, 3)
    phases = {phase["what"]: phase for phase in told["phases"]}
    assert {"make material", "read material", "compute", "snapshots", "check", "picture"} <= set(phases)
    assert phases["snapshots"]["bytes"] == 3 * (NPY_HEADER + 4 * SIZE ** 3)
    assert 0 < told["lost_seconds"] < told["run_seconds"] and "share of time lost to snapshots" in said
    assert told["gfile"]["store_write_size"] >= 3 * 4 * SIZE ** 3 and told["gfile"]["write_errors"] == 0
    width, height, rows = png_rows(tmp_path / "out/field.png")
    assert width > height > 700 and len(set(rows)) > 100


def test_files_are_what_their_headers_say(program, tmp_path):
    run_small(program, tmp_path, "--steps", 60)
    made = sorted(path.name for path in (tmp_path / "out/store").iterdir())
    assert made == [f"ez-{step:06d}.npy" for step in range(10, 70, 10)] + ["material.map"]
    step, field = read_field(tmp_path / "out/store/ez-000060.npy")
    assert step == 60 and abs(field).max() > 0.1
    material = (tmp_path / "out/store/material.map").read_bytes()
    assert material[:8] == b"TNDMAT01" and len(material) == HEADER + SIZE ** 3
    middle = HEADER + (SIZE // 2 * SIZE + SIZE // 2) * SIZE + int(0.44 * SIZE)
    assert material[middle] == 1 and material[HEADER] == 0 and 2 in material[HEADER:]


@pytest.mark.parametrize("what", ["cavity", "planewave"])
def test_theory(program, what):
    assert "passed" in program("fdtd").pass_run("--validate", what)


@pytest.mark.parametrize("what", ["cavity", "planewave"])
def test_theory_finds_a_wrong_time_step(program, what):
    done = program("fdtd").run("--validate", what, "--plant", "time-step")
    assert done.returncode == 1 and "FAILED" in done.stdout


def test_the_last_snapshot_is_compared_bit_by_bit(program, tmp_path):
    said = program("fdtd").fail_run("--size", SIZE, "--steps", 20, "--output", tmp_path / "out", "--plant", "field")
    assert "differs from the field in 1 cells" in said


def test_absorbing_walls_absorb(program, tmp_path):
    left = {}
    for walls in ("absorbing", "conductor", "periodic"):
        run_small(program, tmp_path, "--steps", 300, "--boundary", walls)
        left[walls] = abs(read_field(tmp_path / "out/store/ez-000300.npy")[1]).max()
    assert left["absorbing"] < 0.05 * min(left["conductor"], left["periodic"])


def test_a_map_made_before(program, store, tmp_path):
    if store.startswith("mem:"):  # lives as long as its program
        assert "ENOENT" in program("fdtd").fail_run("--size", SIZE, "--material", f"{store}/material.map")
        return
    program("fdtd").pass_run("--size", SIZE, "--store", store, "--make-material")
    run_small(program, tmp_path, "--steps", 10, "--store", store, "--material", f"{store}/material.map")


def test_a_map_of_another_size(program, tmp_path):
    program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", "--make-material")
    said = program("fdtd").fail_run("--size", SIZE + 1, "--output", tmp_path / "out", "--material",
                                    tmp_path / "out/store/material.map")
    assert "ERANGE" in said and "33 cells an axis" in said


def test_a_file_that_is_no_map(program, tmp_path):
    (tmp_path / "words").write_bytes(b"n" * (HEADER + SIZE ** 3))
    assert "TND_ECORRUPT" in program("fdtd").fail_run("--size", SIZE, "--material", tmp_path / "words")


def test_a_map_that_is_cut(program, tmp_path):
    program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", "--make-material")
    path = tmp_path / "out/store/material.map"
    path.write_bytes(path.read_bytes()[:-1])
    assert "EIO" in program("fdtd").fail_run("--size", SIZE, "--output", tmp_path / "out", "--material", path)


def test_a_store_that_is_not_there(program, tmp_path):
    said = program("fdtd").fail_run("--size", SIZE, "--store", f"file://{tmp_path}/absent")
    assert "cannot write the material map" in said and "ENOENT" in said and "gopen" in said


def test_a_store_that_takes_no_more(program, tmp_path):
    """The map fits under the limit, a snapshot does not: the error comes from the background and must not be lost."""
    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    said = program("fdtd").fail_run("--size", SIZE, "--steps", 20, "--output", tmp_path / "out", before=limit_files)
    assert "the snapshot" in said and "EFBIG" in said


def snapshot_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "snapshots"
    made.mkdir()
    return made


@pytest.mark.parametrize("words", [[], ["--synchronous"], ["--buffers", 1], ["--buffers", 5]], ids=lambda words: "".join(map(str, words)) or "default")
def test_snapshots_by_threads_equal_those_by_kernels(program, tmp_path, folder, words):
    run_small(program, tmp_path, "--steps", 47, "--snapshot-every", 5)
    by_kernels = snapshot_files(tmp_path / "out/store")
    by_kernels.pop("material.map")
    assert len(by_kernels) == 10 and "ez-000047.npy" in by_kernels and len(set(by_kernels.values())) == 10
    said = run_small(program, tmp_path, "--steps", 47, "--snapshot-every", 5, "--snapshots", f"file://{folder}", *words)
    assert "equals the field in every cell" in said
    assert snapshot_files(folder) == by_kernels


def test_what_snapshots_cost_is_compared(program, tmp_path, folder):
    said = run_small(program, tmp_path, "--steps", 40, "--snapshots", folder, "--compare", 3)
    assert "against runs without snapshots" in said and "medians of 3 rounds" in said
    told = json.loads((tmp_path / "out/timings.json").read_text())
    compare = told["compare"]
    assert compare["rounds"] == 3 and min(compare["without_seconds"], compare["with_seconds"]) > 0
    assert sorted(snapshot_files(folder)) == [f"ez-{step:06d}.npy" for step in (10, 20, 30, 40)]


def test_the_last_snapshot_of_a_thread_is_compared_bit_by_bit(program, tmp_path, folder):
    said = program("fdtd").fail_run("--size", SIZE, "--steps", 20, "--output", tmp_path / "out", "--snapshots", folder,
                                    "--plant", "field")
    assert "differs from the field in 1 cells" in said


def test_a_folder_that_is_not_there(program, tmp_path):
    said = program("fdtd").fail_run("--size", SIZE, "--output", tmp_path / "out", "--snapshots", tmp_path / "absent")
    assert f"cannot write snapshots to {tmp_path}/absent/: No such file" in said


def test_a_folder_that_takes_no_more(program, tmp_path, folder):
    """Told once, with the step; no part of a snapshot stays."""
    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    said = program("fdtd").fail_run("--size", SIZE, "--steps", 60, "--output", tmp_path / "out", "--snapshots", folder,
                                    before=limit_files)
    assert said.count("File too large") == 1 and "the snapshot of step 10:" in said
    assert snapshot_files(folder) == {}


def test_a_wrong_line(program):
    assert program("fdtd").run("--size", "many").returncode not in (0, 1)
