"""The trace of a program, `tanada gfile stat` on live and dead processes, and `tanada doctor`."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
LIMIT_S = 60


@pytest.fixture
def environment(tmp_path):
    """An environment with a runtime folder of this test, and kernels on the host executor."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "TND_GFILE_DEVICE": "host"}


def tanada(environment, *words):
    return subprocess.run(
        [BUILD / "bin/tanada", *map(str, words)],
        env=environment,
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
    )


LINE = "some word17 and more of it\n"


def words_of(tmp_path, word_count, line_count=4000):
    dictionary = tmp_path / "words"
    dictionary.write_text("".join(f"word{i}\n" for i in range(word_count)))
    text = tmp_path / "text"
    text.write_text(LINE * line_count)
    return [
        "--dictionary",
        dictionary,
        "--text",
        text,
        "--output",
        tmp_path / "out",
        "--text-limit",
        "0",
    ]


LONG = (20000, 2000000)  # a kernel of half a minute; the tests kill it


@pytest.fixture
def busy(environment, tmp_path):
    """A process with a long-running kernel."""
    process = subprocess.Popen(
        [BUILD / "bin/string_match", *words_of(tmp_path, *LONG)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait(LIMIT_S)


def stat_when(environment, process, condition):
    """Return the statistics of the process as soon as they satisfy the condition."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done = tanada(environment, "gfile", "stat", process.pid, "--json")
        if done.returncode == 0:
            seen = json.loads(done.stdout)["processes"][0]
            if condition(seen):
                return seen
        assert process.poll() is None, "the program ended before it was seen"
        time.sleep(0.05)
    raise AssertionError("never seen")


def test_a_trace_has_what_happened(environment, tmp_path):
    trace = tmp_path / "trace-%p.json"
    done = subprocess.Popen(
        [BUILD / "bin/string_match", *words_of(tmp_path, 50)],
        cwd=tmp_path,
        env={**environment, "TND_GFILE_TRACE": str(trace)},
        stdout=subprocess.DEVNULL,
    )
    assert done.wait(LIMIT_S) == 0
    events = json.loads((tmp_path / f"trace-{done.pid}.json").read_text())
    reads = [each for each in events if each["name"] == "store read" and each["ph"] == "b"]
    assert any(each["args"]["file"].endswith("text") for each in reads)
    assert all(each["args"]["size"] > 0 and each["args"]["depth"] > 0 for each in reads)
    ends = {(each["cat"], each["id"]): each for each in events if each["ph"] == "e"}
    begins = [each for each in events if each["ph"] == "b"]
    assert len(begins) == len(ends)
    assert all(ends[each["cat"], each["id"]]["ts"] >= each["ts"] for each in begins)
    # An open also returns a small file's data, and a reader's close has no reply. Neither reads nor
    # closes are required.
    requests = {each["name"] for each in begins if each["cat"] == "request"}
    assert {"open", "write"} <= requests
    assert any(each["name"] == "round" and each["dur"] > 0 for each in events if each["ph"] == "X")


def test_a_killed_program_leaves_a_trace_without_its_bracket_alone(environment, tmp_path):
    trace = tmp_path / "trace.json"
    process = subprocess.Popen(
        [BUILD / "bin/string_match", *words_of(tmp_path, *LONG)],
        cwd=tmp_path,
        env={**environment, "TND_GFILE_TRACE": str(trace)},
        stdout=subprocess.DEVNULL,
    )
    stat_when(environment, process, lambda seen: seen["counters"]["misses"] > 0)
    process.send_signal(signal.SIGKILL)
    process.wait(LIMIT_S)
    assert any(each["name"] == "store read" for each in json.loads(trace.read_text() + "]"))


def test_a_trace_that_cannot_be_written_is_an_error(environment, tmp_path):
    done = subprocess.run(
        [BUILD / "bin/string_match", *words_of(tmp_path, 5)],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        env={**environment, "TND_GFILE_TRACE": "/nowhere/at/all"},
        timeout=LIMIT_S,
    )
    assert done.returncode != 0 and "/nowhere/at/all" in done.stderr


def test_stat_of_a_running_kernel(environment, busy):
    seen = stat_when(environment, busy, lambda seen: seen["counters"]["device_hits"] > 0)
    assert seen["program"] == "string_match" and seen["device"] == "host"
    (text,) = [each for each in seen["files"] if each["url"].endswith("/text")]
    assert text["path"] in ("staged", "mapped") and text["size"] == LONG[1] * len(LINE)
    assert text["reason"], "a staged file has a reason"
    assert (
        0 < seen["hit_ratio"] <= 1
        and seen["miss_latency"]["p50_ns"] <= seen["miss_latency"]["p99_ns"]
    )
    shown = tanada(environment, "gfile", "stat")
    assert (
        shown.returncode == 0 and "string_match" in shown.stdout and text["reason"] in shown.stdout
    )


def test_watch_gives_rates_and_ends_with_the_process(environment, busy):
    stat_when(environment, busy, lambda seen: seen["counters"]["device_hits"] > 0)
    done = tanada(environment, "gfile", "stat", busy.pid, "--json", "--watch", 0.4, "--count", 12)
    samples = [json.loads(line)["processes"][0] for line in done.stdout.splitlines()]
    assert len(samples) == 12
    assert samples[-1]["counters"]["device_hits"] > samples[0]["counters"]["device_hits"]
    assert (
        max(each["per_second"]["device_hits"] for each in samples[1:]) > 0
        and samples[-1]["period_s"] < 5
    )
    watching = subprocess.Popen(
        [BUILD / "bin/tanada", "gfile", "stat", str(busy.pid), "--watch", "0.1"],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    time.sleep(0.3)
    busy.kill()
    assert watching.wait(LIMIT_S) == 0


def test_the_dead_are_not_shown(environment, busy):
    stat_when(environment, busy, lambda seen: True)
    busy.kill()
    busy.wait(LIMIT_S)
    assert list(pathlib.Path(environment["XDG_RUNTIME_DIR"], "tanada").iterdir()), (
        "the page it left"
    )
    assert json.loads(tanada(environment, "gfile", "stat", "--json").stdout) == {"processes": []}
    asked = tanada(environment, "gfile", "stat", busy.pid)
    assert asked.returncode == 1 and str(busy.pid) in asked.stderr


def test_publishing_can_be_turned_off(environment, tmp_path):
    done = subprocess.run(
        [BUILD / "bin/string_match", *words_of(tmp_path, 5)],
        cwd=tmp_path,
        capture_output=True,
        env={**environment, "TND_GFILE_PUBLISH": "off"},
        timeout=LIMIT_S,
    )
    assert done.returncode == 0
    assert not pathlib.Path(environment["XDG_RUNTIME_DIR"], "tanada").exists()


def test_a_finished_program_leaves_no_page(environment, tmp_path):
    done = subprocess.run(
        [BUILD / "bin/string_match", *words_of(tmp_path, 5)],
        cwd=tmp_path,
        capture_output=True,
        env=environment,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0
    assert not pathlib.Path(environment["XDG_RUNTIME_DIR"], "tanada").exists()


def test_a_damaged_page_of_a_live_process_is_told(environment, busy):
    """Planted fault: the page is truncated while its process is stopped and cannot rewrite it."""
    stat_when(environment, busy, lambda seen: True)
    busy.send_signal(signal.SIGSTOP)
    (page,) = pathlib.Path(environment["XDG_RUNTIME_DIR"], "tanada").iterdir()
    os.truncate(page, 300)
    asked = tanada(environment, "gfile", "stat", busy.pid)
    assert asked.returncode == 1 and "corrupt" in asked.stderr
    busy.send_signal(signal.SIGCONT)


def test_doctor(environment):
    done = tanada(environment, "doctor", "--json")
    report = json.loads(done.stdout)
    topics = {each["topic"]: each for each in report["findings"]}
    assert {
        "GPU",
        "CUDA plugin",
        "GDS",
        "RDMA",
        "io_uring",
        "gfarm",
        "gluster",
        "huge pages",
        "NUMA",
        "/dev/shm",
        "MPI",
        "cgroup",
        "locked memory",
        "modules",
        "nvcc",
        "open files",
        "o2g",
        "o2g driver",
        "PMIx",
        "launcher",
        "Global Arrays",
        "userfaultfd",
        "pool",
        "settings",
    } <= set(topics)
    assert all(each["remedy"] for each in topics.values() if each["state"] != "ok")
    assert (done.returncode == 0) == report["works"]


def test_doctor_finds_plugins_however_it_is_called(environment, tmp_path):
    """By path, by PATH and by a link. The current folder is never searched."""
    (tmp_path / "link").symlink_to(BUILD / "bin/tanada")
    (tmp_path / "libtanada_cuda.so").write_text("not a library")

    def plugins(*command, **variables):
        done = subprocess.run(
            [*command, "doctor", "--json"],
            env={**environment, **variables},
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        topics = {each["topic"]: each for each in json.loads(done.stdout)["findings"]}
        return [topics[topic]["text"] for topic in ("CUDA plugin", "gfarm", "gluster")]

    by_path = plugins(BUILD / "bin/tanada")
    assert plugins("tanada", PATH=str(BUILD / "bin")) == by_path
    assert plugins(tmp_path / "link") == by_path
    assert not [text for text in by_path if "ELF" in text or "too short" in text]


def test_doctor_fails_where_a_gpu_is_demanded_and_missing(environment):
    done = tanada(
        {**environment, "TND_CUDA_PLUGIN": "/nowhere.so", "TND_GFILE_DEVICE": "cuda"}, "doctor"
    )
    assert done.returncode == 1 and "broken   CUDA plugin" in done.stdout


def test_version_and_wrong_words(environment):
    assert tanada(environment, "--version").stdout.startswith("tanada ")
    assert tanada(environment, "gfile", "stat", "--watch", "0").returncode == 2
    unknown = tanada(environment, "nothing")
    assert unknown.returncode == 2
    assert unknown.stderr == "tanada has no subcommand nothing; tanada --help lists them\n"
    inner = tanada(environment, "pool", "nothing")
    assert inner.returncode == 2 and "tanada pool has no subcommand nothing" in inner.stderr
    assert "subcommand is required" in tanada(environment, "pool").stderr
    for words, meant in (
        (("docter",), "doctor"),
        (("pool", "lst"), "ls"),
        (("pool", "stta"), "stat"),
    ):
        assert f"did you mean {meant};" in tanada(environment, *words).stderr


def test_status_shows_a_running_kernel_and_a_pool(environment, busy, tmp_path):
    port_file = tmp_path / "port"
    daemon = subprocess.Popen(
        [BUILD / "bin/tanada-poold", "--port", "0", "--size", "16MiB", "--port-file", port_file],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        stat_when(environment, busy, lambda seen: True)
        deadline = time.monotonic() + LIMIT_S
        while not (port_file.exists() and port_file.read_text()):
            assert daemon.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        report = json.loads(tanada(environment, "status", "--json").stdout)
        processes = {each["pid"]: each for each in report["processes"]}
        assert processes[daemon.pid]["product"] == "pool daemon"
        assert int(port_file.read_text().split()[0]) in processes[daemon.pid]["ports"]
        text = tanada(environment, "status").stdout
        assert f"PID {daemon.pid}, user {os.getuid()}, port" in text
    finally:
        daemon.kill()
        daemon.wait()
