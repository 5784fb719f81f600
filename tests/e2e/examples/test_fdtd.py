"""The FDTD program: its physics, its files, its picture, and that its checks can fail."""

import contextlib
import json
import resource
import signal
import struct
import time
import zlib

import numpy
import pytest

SIZE = 32
HEADER = 64  # of a map of materials
NPY_HEADER = 128  # of a snapshot


def png_rows(path):
    """Width, height and the colours of a PNG of 8-bit RGB, without undoing its filters: enough to
    see that it is not blank.
    """
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, color = struct.unpack(">IIBB", data[16:26])
    assert (depth, color) == (8, 2)
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return width, height, zlib.decompress(packed)


def read_field(path):
    """Step, from the name, and the cells of a snapshot, read by NumPy as a user would."""
    field = numpy.load(path)
    assert (
        field.dtype == "<f4"
        and len(set(field.shape)) == 1
        and path.stat().st_size == NPY_HEADER + field.nbytes
    )
    return int(path.stem.removeprefix("ez-")), field


def run_small(program, tmp_path, *words):
    return program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", *words)


def test_whole_run_over_a_store(program, store, tmp_path):
    output = run_small(program, tmp_path, "--steps", 25, "--store", store)
    assert "equals the field in every cell" in output
    timings = json.loads((tmp_path / "out/timings.json").read_text())
    assert (timings["size"], timings["steps"], timings["snapshots"]) == (SIZE, 25, 3)
    phases = {phase["what"]: phase for phase in timings["phases"]}
    assert {"make material", "read material", "compute", "snapshots", "check", "picture"} <= set(
        phases
    )
    assert phases["snapshots"]["bytes"] == 3 * (NPY_HEADER + 4 * SIZE**3)
    assert (
        0 < timings["lost_seconds"] < timings["run_seconds"]
        and "share of time lost to snapshots" in output
    )
    assert (
        timings["gfile"]["store_write_size"] >= 3 * 4 * SIZE**3
        and timings["gfile"]["write_errors"] == 0
    )
    width, height, rows = png_rows(tmp_path / "out/field.png")
    assert width > height > 700 and len(set(rows)) > 100


def test_files_are_what_their_headers_say(program, tmp_path):
    run_small(program, tmp_path, "--steps", 60)
    made = sorted(path.name for path in (tmp_path / "out/store").iterdir())
    assert made == [f"ez-{step:06d}.npy" for step in range(10, 70, 10)] + ["material.map"]
    step, field = read_field(tmp_path / "out/store/ez-000060.npy")
    assert step == 60 and abs(field).max() > 0.1
    material = (tmp_path / "out/store/material.map").read_bytes()
    assert material[:8] == b"TNDMAT01" and len(material) == HEADER + SIZE**3
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
    output = program("fdtd").fail_run(
        "--size", SIZE, "--steps", 20, "--output", tmp_path / "out", "--plant", "field"
    )
    assert "differs from the field in 1 cells" in output


def test_absorbing_walls_absorb(program, tmp_path):
    left = {}
    for walls in ("absorbing", "conductor", "periodic"):
        run_small(program, tmp_path, "--steps", 300, "--boundary", walls)
        left[walls] = abs(read_field(tmp_path / "out/store/ez-000300.npy")[1]).max()
    assert left["absorbing"] < 0.05 * min(left["conductor"], left["periodic"])


def test_a_map_made_before(program, store, tmp_path):
    if store.startswith("mem:"):  # lives as long as its program
        assert "ENOENT" in program("fdtd").fail_run(
            "--size", SIZE, "--material", f"{store}/material.map"
        )
        return
    program("fdtd").pass_run("--size", SIZE, "--store", store, "--make-material")
    run_small(
        program, tmp_path, "--steps", 10, "--store", store, "--material", f"{store}/material.map"
    )


def test_a_map_of_another_size(program, tmp_path):
    program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", "--make-material")
    output = program("fdtd").fail_run(
        "--size",
        SIZE + 1,
        "--output",
        tmp_path / "out",
        "--material",
        tmp_path / "out/store/material.map",
    )
    assert "ERANGE" in output and "33 cells an axis" in output


def test_a_file_that_is_no_map(program, tmp_path):
    (tmp_path / "words").write_bytes(b"n" * (HEADER + SIZE**3))
    assert "TND_ECORRUPT" in program("fdtd").fail_run(
        "--size", SIZE, "--material", tmp_path / "words"
    )


def test_a_map_that_is_cut(program, tmp_path):
    program("fdtd").pass_run("--size", SIZE, "--output", tmp_path / "out", "--make-material")
    path = tmp_path / "out/store/material.map"
    path.write_bytes(path.read_bytes()[:-1])
    assert "EIO" in program("fdtd").fail_run(
        "--size", SIZE, "--output", tmp_path / "out", "--material", path
    )


def test_a_store_that_is_not_there(program, tmp_path):
    output = program("fdtd").fail_run("--size", SIZE, "--store", f"file://{tmp_path}/absent")
    assert "cannot write the material map" in output and "ENOENT" in output and "gopen" in output


def run_until_files_are_full(program, tmp_path, *words):
    """Some time after its start, files accept only a part of a snapshot; not earlier, because its
    symmetric memory is a file, too. Returns its output.
    """
    running = program("fdtd").start(
        "--size",
        SIZE,
        "--steps",
        100000,
        "--output",
        tmp_path / "out",
        *words,
        before=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    try:
        assert "snapshot" in running.stdout.readline()
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (100000, 100000))
        _, output = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 1
    return output


def test_a_store_that_takes_no_more(program, tmp_path):
    """The error comes from the background and must not be lost."""
    output = run_until_files_are_full(program, tmp_path)
    assert "the snapshot" in output and "EFBIG" in output


def snapshot_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "snapshots"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "words",
    [[], ["--synchronous"], ["--buffers", 1], ["--buffers", 5]],
    ids=lambda words: "".join(map(str, words)) or "default",
)
def test_snapshots_by_threads_equal_those_by_kernels(program, tmp_path, folder, words):
    run_small(program, tmp_path, "--steps", 47, "--snapshot-every", 5)
    by_kernels = snapshot_files(tmp_path / "out/store")
    by_kernels.pop("material.map")
    assert (
        len(by_kernels) == 10
        and "ez-000047.npy" in by_kernels
        and len(set(by_kernels.values())) == 10
    )
    output = run_small(
        program,
        tmp_path,
        "--steps",
        47,
        "--snapshot-every",
        5,
        "--snapshots",
        f"file://{folder}",
        *words,
    )
    assert "equals the field in every cell" in output
    assert snapshot_files(folder) == by_kernels


def test_what_snapshots_cost_is_compared(program, tmp_path, folder):
    output = run_small(program, tmp_path, "--steps", 40, "--snapshots", folder, "--compare", 3)
    assert "against runs without snapshots" in output and "medians of 3 rounds" in output
    timings = json.loads((tmp_path / "out/timings.json").read_text())
    compare = timings["compare"]
    assert compare["rounds"] == 3 and min(compare["without_seconds"], compare["with_seconds"]) > 0
    assert sorted(snapshot_files(folder)) == [f"ez-{step:06d}.npy" for step in (10, 20, 30, 40)]


def test_the_last_snapshot_of_a_thread_is_compared_bit_by_bit(program, tmp_path, folder):
    output = program("fdtd").fail_run(
        "--size",
        SIZE,
        "--steps",
        20,
        "--output",
        tmp_path / "out",
        "--snapshots",
        folder,
        "--plant",
        "field",
    )
    assert "differs from the field in 1 cells" in output


@pytest.mark.parametrize("shared_memory", ["1", "0"])
@pytest.mark.parametrize("words", [[], ["--synchronous"]], ids=["beside", "synchronous"])
def test_snapshots_in_a_pool_equal_those_in_files(
    program, environment, tmp_path, folder, pool_daemon, words, shared_memory
):
    """Bit for bit equal to those that the program puts, and the pictures of both are the same."""
    environment["TND_POOL_SHARED_MEMORY"] = shared_memory
    url = pool_daemon.url("fdtd")
    run_small(program, tmp_path, "--steps", 60, "--snapshots", folder)
    output = run_small(program, tmp_path, "--steps", 60, "--snapshots", f"{url}/run", *words)
    assert "equals the field in every cell" in output
    stored = {
        name.removeprefix("run/"): content for name, content in pool_daemon.objects("fdtd").items()
    }
    assert stored == snapshot_files(folder) and len(stored) == 6


def test_pictures_and_animations_of_a_run_decode(program, tanada, tmp_path, folder, pool_daemon):
    image = pytest.importorskip("PIL.Image")
    url = pool_daemon.url("fdtd")
    for target in (folder, f"{url}/run"):
        run_small(program, tmp_path, "--steps", 60, "--snapshots", target)
    for source, name in ((folder, "file"), (f"{url}/run/", "pool")):
        assert tanada("render", source, "-o", tmp_path / f"{name}.gif").returncode == 0
        last = f"{source}/ez-000060.npy".replace("//ez", "/ez")
        assert tanada("render", last, "-o", tmp_path / f"{name}.png").returncode == 0
    assert (tmp_path / "file.gif").read_bytes() == (tmp_path / "pool.gif").read_bytes()
    assert (tmp_path / "file.png").read_bytes() == (tmp_path / "pool.png").read_bytes()
    with image.open(tmp_path / "pool.gif") as film:
        assert film.n_frames == 6
        frames = set()
        for frame in range(film.n_frames):
            film.seek(frame)
            frames.add(film.convert("RGB").tobytes())
        assert len(frames) == 6
    with image.open(tmp_path / "pool.png") as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 100


@contextlib.contextmanager
def long_run(program, tmp_path, pool_daemon):
    """A run that lasts far longer than the test; available when its first snapshot is in the pool."""
    running = program("fdtd").start(
        "--size",
        48,
        "--steps",
        100000,
        "--output",
        tmp_path / "out",
        "--snapshots",
        pool_daemon.url("fdtd"),
    )
    try:
        assert "snapshot" in running.stdout.readline()
        deadline = time.monotonic() + 30
        while not pool_daemon.names("fdtd"):
            assert running.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize(
    "how, status",
    [(signal.SIGKILL, "TND_EPEER"), (signal.SIGSTOP, "ETIMEDOUT")],
    ids=["killed", "hangs"],
)
def test_a_daemon_that_goes_during_the_run(
    program, environment, tmp_path, pool_daemon, how, status
):
    """The run ends by itself soon, and names the lost snapshot once."""
    environment["TND_POOL_TIMEOUT"] = "1s"
    with long_run(program, tmp_path, pool_daemon) as running:
        pool_daemon.process.send_signal(how)
        start = time.monotonic()
        try:
            _, output = running.communicate(timeout=60)
        finally:
            pool_daemon.process.send_signal(signal.SIGCONT)
        assert running.returncode == 1 and time.monotonic() - start < 10
        assert output.count("the snapshot of step ") == 1 and status in output, output


def test_a_run_that_is_killed_leaves_whole_snapshots(program, tmp_path, pool_daemon):
    with long_run(program, tmp_path, pool_daemon) as running:
        running.kill()
        running.wait(10)
    stored = pool_daemon.objects("fdtd")  # each has its checksum
    assert stored and all(len(content) == NPY_HEADER + 4 * 48**3 for content in stored.values())


def test_snapshots_to_every_store(program, store, tmp_path):
    output = run_small(program, tmp_path, "--steps", 20, "--snapshots", store)
    assert f"every 10 steps to {store}" in output and "equals the field in every cell" in output


def test_a_pool_that_is_full(program, tmp_path, pool_daemon):
    """Snapshots of 1 MiB, 256 MiB of pool: the error is reported with the step, and the daemon
    keeps earlier ones.
    """
    output = program("fdtd").fail_run(
        "--size",
        64,
        "--steps",
        600,
        "--snapshot-every",
        1,
        "--output",
        tmp_path / "out",
        "--snapshots",
        pool_daemon.url("fdtd"),
    )
    assert output.count("the snapshot of step ") == 1 and "ENOSPC" in output
    assert len(pool_daemon.names("fdtd")) > 100


def test_a_pool_that_is_not_there(program, tmp_path):
    output = program("fdtd").fail_run(
        "--size", SIZE, "--output", tmp_path / "out", "--snapshots", "pool://127.0.0.1:1/fdtd"
    )
    assert "cannot connect to pool://127.0.0.1:1/fdtd/" in output and "TND_EPEER" in output


def test_a_folder_that_is_not_there(program, tmp_path):
    output = program("fdtd").fail_run(
        "--size", SIZE, "--output", tmp_path / "out", "--snapshots", tmp_path / "absent"
    )
    assert f"cannot write snapshots to {tmp_path}/absent/: No such file" in output


def test_a_folder_that_takes_no_more(program, tmp_path, folder):
    """Reported once, with the step; no part of a snapshot remains."""
    output = run_until_files_are_full(program, tmp_path, "--snapshots", folder)
    assert output.count("File too large") == 1 and output.count("the snapshot of step ") == 1
    assert all(
        len(content) == NPY_HEADER + 4 * SIZE**3 for content in snapshot_files(folder).values()
    )


def test_a_wrong_line(program):
    assert program("fdtd").run("--size", "many").returncode not in (0, 1)
