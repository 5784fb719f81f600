"""Calls of the host on memory of devices, with the host executor in place of a device. OpenSHMEM's
own programs run with the device heap as their symmetric heap. The programs host_*.c mix both
kinds of memory in every call, with device memory that processors cannot access
(TND_HOST_DEVICE=guarded): a call that loads from it is ended by the system.
"""

import json
import pathlib
import re
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "conformance/shmem"))

import sandbox  # noqa: E402
import shmem_jobs  # noqa: E402
from shmem_jobs import processes  # noqa: E402

HOST = {"TND_CUDA_PLUGIN": "/nowhere"}
GUARDED = {**HOST, "TND_HOST_DEVICE": "guarded"}
DEADLINE_S = 20
# Locks are in host memory, and realloc is for the host's heap.
CONFORMANCE = {
    "put_get": [],
    "sizes": [],
    "nonblocking": [],
    "atomics": [2000],
    "signals": [],
    "waits": [],
    "contexts": [],
    "teams": [],
    "collectives": [],
    "reductions": [],
    "threads": [],
    "litmus": [1000],
    "deprecated": [],
    "since_1_6": [],
}
PROGRAMS = [
    "host_mixes",
    "host_atomics",
    "host_waits",
    "host_collectives",
    "host_teams",
    "host_memory",
    "host_starts",
]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmemg"))


def build(jobs, name):
    return jobs.build(name, HERE / f"{name}.c", "-D_GNU_SOURCE", "-I", str(HERE))


# The programs host_*.c have the same kinds of these calls.
SLOW = {"sizes", "nonblocking", "collectives", "reductions", "deprecated", "since_1_6"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CONFORMANCE],
)
def test_conformance_on_the_device_heap(jobs, name):
    source = next(shmem_jobs.PROGRAMS.glob(f"{name}.c*"))
    jobs.build(f"{name}_device", source, "-include", str(HERE / "device_heap.h"))
    shmem_jobs.require_passed(jobs.run(f"{name}_device", 3, CONFORMANCE[name], limit_s=90, **HOST))


@pytest.mark.parametrize("pe_count", [1, 2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(jobs, name, pe_count):
    build(jobs, name)
    shmem_jobs.require_passed(jobs.run(name, pe_count, limit_s=60, **GUARDED))


def test_debug_mode_knows_device_addresses(jobs):
    for name in ("host_mixes", "host_waits", "host_collectives"):
        build(jobs, name)
        shmem_jobs.require_passed(jobs.run(name, 2, limit_s=60, SHMEM_DEBUG="1", **GUARDED))


def test_a_load_from_device_memory_is_seen(jobs):
    """What the other tests rely on."""
    build(jobs, "host_misuse")
    done = jobs.run("host_misuse", 2, ["load"], limit_s=30, **GUARDED)
    assert done.status == "failed" and "nothing happened" not in done.output


MISUSES = {
    "free_device": r"shmem_free: PE \d: address 0x[0-9a-f]+ is device memory: use shmemg_free",
    "free_host": r"shmemg_free: PE \d: address 0x[0-9a-f]+ is not device memory",
    "free_inside": r"shmemg_free: PE \d: address 0x[0-9a-f]+ is not the start of a block of the device heap",
    "realloc": r"shmem_realloc: PE \d: address 0x[0-9a-f]+ is device memory",
    "lock": r"shmem_set_lock: PE \d: address 0x[0-9a-f]+ is device memory: locks must be in host memory",
    "psync": r"shmem_sync: PE \d: pSync at address 0x[0-9a-f]+ is device memory",
    "past_the_end": r"shmem_putmem: PE \d: \d+ bytes at address 0x[0-9a-f]+ \(PE \d\) extend beyond symmetric memory: .*device heap",
    "pe": r"shmem_long_p: PE \d: there is no PE 7",
    "word": r"shmem_uint64_atomic_add: PE \d: address 0x[0-9a-f]+ \(PE \d\) is not a multiple of 8",
    "device_context": r"shmem_ctx_long_p: PE \d: the context 0x2 is for kernels only",
    "world": r"shmem_team_destroy: PE \d: SHMEM_DEVICE_TEAM_WORLD cannot be destroyed",
    "shared": r"shmem_team_destroy: PE \d: SHMEM_DEVICE_TEAM_SHARED cannot be destroyed",
    "before": r"shmemg_malloc: called before shmem_init",
    "no_device": r"shmemg_malloc: PE \d: this PE has no device: start with shmem_init_thread\(level \| SHMEM_DEVICE_HOST_INIT",
    "flags": r"this PE requests SHMEM_DEVICE_\* 0x[13]00, others 0x[13]00: all PEs must request the same",
    "one_alone": r"PE \d has (no device|the host executor), this one has (no device|the host executor)",
}


@pytest.mark.parametrize("way", MISUSES)
def test_misuse_is_named(jobs, way):
    build(jobs, "host_misuse")
    done = jobs.run("host_misuse", 2, [way], limit_s=30, **GUARDED)
    assert done.status == "failed" and re.search(MISUSES[way], done.output), (
        f"{done.status}\n{done.output[-3000:]}"
    )
    assert "nothing happened" not in done.output and "Segmentation" not in done.output


def test_sizes_of_the_device_heap(jobs):
    build(jobs, "host_memory")
    for text in ("1", "4m", ".01g", "20kk"):
        shmem_jobs.require_passed(
            jobs.run("host_memory", 2, limit_s=60, SHMEM_DEVICE_SYMMETRIC_SIZE=text, **GUARDED)
        )
    done = jobs.run("host_memory", 2, limit_s=30, SHMEM_DEVICE_SYMMETRIC_SIZE="lots", **GUARDED)
    assert (
        done.status == "failed"
        and "SHMEM_DEVICE_SYMMETRIC_SIZE=lots is not a valid size" in done.output
    ), done.output[-2000:]
    done = jobs.run(
        "host_memory", 2, limit_s=60, SHMEM_INFO="1", SHMEM_DEVICE_SYMMETRIC_SIZE="3m", **GUARDED
    )
    shmem_jobs.require_passed(done)
    assert re.search(r"SHMEM_DEVICE_SYMMETRIC_SIZE .*\(host executor\): 3145728", done.output), (
        done.output[-2000:]
    )


def test_without_flags_there_is_no_device(jobs, tmp_path):
    source = tmp_path / "none.c"
    source.write_text("""#include "check.h"
int main(void) { start("none"); return finish(); }
""")
    jobs.build("none", source)
    done = jobs.run(
        "none",
        2,
        limit_s=30,
        SHMEM_DEVICE_SYMMETRIC_SIZE="lots",
        SHMEM_INFO="1",
        TND_CUDA_PLUGIN="/nowhere",
    )
    shmem_jobs.require_passed(done)
    assert "not requested" in done.output


def test_devices_that_do_not_reach_one_another(jobs):
    build(jobs, "host_apart")
    shmem_jobs.require_passed(jobs.run("host_apart", 2, carrier="fabric", limit_s=60, **GUARDED))


def test_a_death_ends_the_job_and_leaves_nothing(jobs, tmp_path):
    if reason := sandbox.missing():
        pytest.skip(reason)
    build(jobs, "host_death")
    report = tmp_path / f"report{time.monotonic_ns()}"
    done = processes.run(
        sandbox.command_for(report, jobs.command("host_death", 3)),
        jobs.environment(**HOST),
        60,
        patience_s=5,
    )
    assert "ready" in done.output and done.status == "failed" and done.seconds < DEADLINE_S, (
        f"{done.status}\n{done.output[-3000:]}"
    )
    assert re.search(r"Killed|SIGKILL|signal 9|has died|EPEER", done.output), done.output[-3000:]
    assert done.left == 0 and json.loads(report.read_text())["left"] == []
    build(jobs, "host_waits")
    shmem_jobs.require_passed(jobs.run("host_waits", 3, limit_s=30, **HOST))
