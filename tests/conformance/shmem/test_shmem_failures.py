"""Jobs that fail: PEs die, or programs violate the specification.

The other PEs do not wait forever, the message names the error, and no resource is left."""

import json
import pathlib
import re
import time

import pytest
import sandbox
import shmem_jobs
from shmem_jobs import ALL, IS_OURS, processes

DEADLINE_S = 20  # on a busy machine; an idle one takes one second
CALLS = ["barrier", "wait_until", "get", "put", "atomic", "lock", "collective"]
DEATHS = [(call, carrier) for carrier in ("shared", "fabric", "tcp") for call in CALLS]
if not ALL:
    DEATHS = [
        ("barrier", "shared"),
        ("wait_until", "shared"),
        ("lock", "shared"),
        ("get", "fabric"),
        ("put", "fabric"),
    ]
# Calls on mapped memory do not need the target to be alive.
WAITS = [
    (call, carrier)
    for call, carrier in DEATHS
    if carrier != "shared" or call not in ("get", "put", "atomic")
]
MISUSES = [
    "pe_put",
    "pe_p",
    "pe_g",
    "pe_get_nbi",
    "pe_atomic",
    "pe_signal",
    "pe_iput",
    "stack",
    "malloc",
    "malloc_large",
    "null",
    "far",
    "across",
    "huge",
    "stride",
    "strides",
    "old_strides",
    "atomic",
    "constant",
    "signal",
    "free",
    "free_inside",
    "lock",
    "comparison",
    "signal_operation",
    "before",
    "before_malloc",
    "after",
    "after_barrier",
    "debug_context",
    "debug_wait",
    "debug_collective",
    "debug_malloc",
    "debug_team",
]


@pytest.fixture
def isolated(jobs, tmp_path):
    """Return a function that runs a command in a sandbox and returns its outcome and leftovers."""
    if reason := sandbox.missing():
        pytest.skip(reason)

    def run(command, environment, limit_s=60, patience_s=5):
        report = tmp_path / f"report{time.monotonic_ns()}"
        done = processes.run(
            sandbox.command_for(report, command), environment, limit_s, patience_s=patience_s
        )
        return done, json.loads(report.read_text())["left"] if report.exists() else [
            f"no report: {done.status}\n{done.output[-2000:]}"
        ]

    return run


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize("call, carrier", DEATHS)
def test_a_death_ends_the_job(jobs, isolated, call, carrier):
    jobs.build("deaths")
    done, left = isolated(jobs.command("deaths", 3, [call], carrier), jobs.environment(carrier))
    assert "ready" in done.output, done.output[-3000:]
    assert done.status == "failed" and done.seconds < DEADLINE_S, (
        f"{done.status} after {done.seconds:.1f} s\n{done.output[-3000:]}"
    )
    assert re.search(r"Killed|SIGKILL|signal 9|has died|EPEER", done.output), done.output[-3000:]
    assert done.left == 0 and left == [], f"{done.left} processes, {left}"


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize("call, carrier", WAITS)
def test_a_death_is_noticed_where_the_launcher_goes_on(jobs, isolated, call, carrier):
    """The launcher does not end the other PEs: they detect the failure themselves."""
    if not shmem_jobs.is_openmpi4():
        pytest.skip("an mpirun of Open MPI 4 is not there: apt-get install openmpi-bin")
    jobs.build("deaths")
    command = jobs.command(
        "deaths", 3, [call], carrier, ["--launcher", "mpirun", "--enable-recovery"]
    )
    done, left = isolated(command, jobs.environment(carrier))
    assert "ready" in done.output, done.output[-3000:]
    assert done.status != "hangs" and done.seconds < DEADLINE_S, (
        f"{done.status} after {done.seconds:.1f} s\n{done.output[-3000:]}"
    )
    assert re.search(r"shmem_\w+: PE [01]: TND_EPEER", done.output), done.output[-3000:]
    assert done.left == 0 and left == [], f"{done.left} processes, {left}"


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
def test_a_second_job_starts_at_once(jobs):
    for carrier in ("shared", "fabric"):
        jobs.run("deaths", 3, ["wait_until"], carrier, limit_s=60)
        done = jobs.run("waits", 3, carrier=carrier)
        shmem_jobs.require_passed(done)
        assert done.seconds < DEADLINE_S


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize(
    "carrier", ["shared", "fabric", "tcp", "mixed"] if ALL else ["shared", "fabric"]
)
def test_nothing_is_left_after_a_good_end(jobs, isolated, carrier):
    jobs.build("collectives")
    done, left = isolated(
        jobs.command("collectives", 3, [4096, 20], carrier), jobs.environment(carrier)
    )
    shmem_jobs.require_passed(done)
    assert done.left == 0 and left == [], f"{done.left} processes, {left}"


def test_what_is_left_is_seen(isolated, jobs, tmp_path):
    """A file and a process that remain are reported. The other tests rely on this."""
    script = "touch /dev/shm/forgotten; sleep 30 >/dev/null 2>&1 & exit 3"
    done, left = isolated(["sh", "-c", script], jobs.environment(), patience_s=0)
    assert done.code == 3 and done.left >= 1 and "/dev/shm/forgotten" in left


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize("way", MISUSES)
@pytest.mark.parametrize("carrier", ["shared", "fabric"] if ALL else ["shared"])
def test_misuse_is_named(jobs, way, carrier):
    debug = {"SHMEM_DEBUG": "1"} if way.startswith("debug") else {}
    done = jobs.run("misuse", 2, [way], carrier, limit_s=30, **debug)
    wanted = re.search(r"wanted: (\S+)\|(.*)\|(\S+)", done.output)
    assert wanted, f"{done.status}, {done.code}\n{done.output[-3000:]}"
    call, pe, addr = wanted.groups()
    assert done.status == "failed" and done.code not in (0, None), (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    lines = [line for line in done.output.splitlines() if call in line and "wanted:" not in line]
    assert lines, f"no line names {call}:\n{done.output[-3000:]}"
    assert pe == "-" or any(pe in line for line in lines), lines
    assert addr == "-" or any(addr in line for line in lines), f"{addr} is not in {lines}"
    assert "nothing happened" not in done.output and "Segmentation" not in done.output


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize(
    "call, name",
    [
        ("reduce", "shmem_long_sum_reduce"),
        ("exscan", "shmem_long_sum_exscan"),
        ("alltoalls", "shmem_long_alltoalls"),
    ],
)
def test_memory_that_is_not_there_is_named(jobs, call, name):
    done = jobs.run("no_memory", 2, [call], "fabric", limit_s=60)
    assert "limited" in done.output and done.status == "failed", (
        f"{done.status}, {done.code}\n{done.output[-3000:]}"
    )
    assert f"{name}: PE 1: ENOMEM" in done.output and "terminate called" not in done.output, (
        done.output[-3000:]
    )


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize("how, name", [("plain", "shmem_init"), ("thread", "shmem_init_thread")])
def test_a_start_that_fails_late_ends_the_job(jobs, isolated, how, name):
    jobs.build("start_fails", None, "-rdynamic", "-ldl")
    done, left = isolated(jobs.command("start_fails", 3, [how], "tcp"), jobs.environment("tcp"))
    assert "no descriptor" in done.output, done.output[-3000:]
    assert done.status == "failed" and done.seconds < DEADLINE_S, (
        f"{done.status} after {done.seconds:.1f} s\n{done.output[-3000:]}"
    )
    assert re.search(rf"{name}: PE 1: .*cannot create an eventfd", done.output), done.output[-3000:]
    assert done.left == 0 and left == [], f"{done.left} processes, {left}"


@pytest.mark.skipif(not IS_OURS, reason="others do not promise it")
@pytest.mark.parametrize("text", ["nonsense", "-5", "12q"])
def test_a_bad_heap_size_is_named(jobs, text):
    done = jobs.run("globals", 2, limit_s=30, SHMEM_SYMMETRIC_SIZE=text)
    assert done.status == "failed" and "SHMEM_SYMMETRIC_SIZE" in done.output, (
        f"{done.status}\n{done.output[-2000:]}"
    )


@pytest.mark.parametrize("text", ["", "1", "100k", "3.5M", "20m", ".1g", "16777216"])
def test_heap_sizes(jobs, text):
    done = jobs.run("waits", 2, limit_s=60, SHMEM_SYMMETRIC_SIZE=text)
    shmem_jobs.require_passed(done)


def test_a_small_heap_ends(jobs, tmp_path):
    source = tmp_path / "small.c"
    source.write_text("""#include "check.h"
int main(void) {
  start("small");
  size_t total = 0;
  while (shmem_malloc(1 << 16) != NULL) total += 1 << 16;
  REQUIRE(total >= 1 << 20 && total <= 16 << 20);
  return finish();
}
""")
    jobs.build("small", source)
    shmem_jobs.require_passed(jobs.run("small", 2, limit_s=60, SHMEM_SYMMETRIC_SIZE="4m"))


def test_the_status_of_a_program_is_kept(jobs, tmp_path):
    source = tmp_path / "status.c"
    source.write_text(
        '#include "check.h"\nint main(void) { start("status"); finish(); return 41; }\n'
    )
    jobs.build("status", source)
    assert jobs.run("status", 2, limit_s=30).code == 41
    assert pathlib.Path(jobs.folder).exists()
