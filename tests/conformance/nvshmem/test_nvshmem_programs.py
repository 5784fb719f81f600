"""Programs in NVSHMEM's interface: on the host executor, by shared memory and by TCP, what they
must compute, how a death ends them, and what does not compile."""

import nvshmem_jobs
import pytest

# Most calls; with four PEs, and by TCP with three, slower ones that differ little.
SLOW = pytest.mark.slow
RUNS = [
    (2, "shared"),
    (2, "tcp"),
    pytest.param(1, "shared", marks=SLOW),
    pytest.param(4, "shared", marks=SLOW),
    pytest.param(4, "tcp", marks=SLOW),
]


@pytest.mark.parametrize("name", ["transfers", "atomics", "collectives", "starts"])
@pytest.mark.parametrize("pe_count, way", RUNS)
def test_program(programs, name, pe_count, way):
    done = programs.run(programs.build(name), pe_count, way=way)
    assert done.status == "passed" and done.left == 0, done.output[-3000:]


def test_the_runtime_of_the_host_executor(programs):
    done = programs.run(programs.build("runtime"), 1)
    assert done.status == "passed", done.output[-3000:]


def test_a_unique_id_with_other_numbers_than_the_launchers_is_refused(programs):
    done = programs.run(programs.build("starts"), 2, ["wrong"])
    assert done.status == "failed" and "process 0 of 3" in done.output, done.output


@pytest.mark.parametrize("where", ["kernel", "stream", "barrier"])
@pytest.mark.parametrize("way", ["shared", "tcp"])
def test_a_death_ends_the_job(programs, where, way):
    """The launcher ends the others, or their next call does; nothing remains."""
    done = programs.run(programs.build("death"), 3, [where], way, limit_s=60)
    assert done.status == "failed" and done.left == 0, f"{done.status}: {done.output[-3000:]}"


@pytest.mark.parametrize(
    "what, reason", [("target", "ERANGE"), ("pe", "EINVAL"), ("signal", "ERANGE")]
)
@pytest.mark.parametrize("way", ["shared", pytest.param("tcp", marks=SLOW)])
def test_a_fault_ends_the_waits_that_depend_on_it(programs, what, reason, way):
    done = programs.run(programs.build("fault"), 2, [what], way, limit_s=60)
    assert done.status == "failed" and done.left == 0, f"{done.status}: {done.output[-3000:]}"
    assert f": {reason}" in done.output and "went on" not in done.output, done.output[-3000:]


@pytest.mark.parametrize(
    "call, reason",
    [
        ("nvshmemx_mc_ptr(0, (void *)0)", "nvshmemx_mc_ptr: not available: NVLink multicast"),
    ],
)
def test_what_cannot_be_had_does_not_compile(programs, tmp_path, call, reason):
    source = tmp_path / "absent.cu"
    source.write_text(f"#include <nvshmemx.h>\nint main() {{ return {call} == nullptr; }}\n")
    done = nvshmem_jobs.compile_source(["-c", source, "-o", tmp_path / "absent.o"])
    assert done.returncode != 0 and reason in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize(
    "header", ["device_host/nvshmem_tensor.h", "device_host/nvshmem_common.cuh"]
)
def test_headers_of_tiles_say_why_they_are_absent(programs, tmp_path, header):
    source = tmp_path / "tiles.cu"
    source.write_text(f"#include <nvshmemx.h>\n#include <{header}>\nint main() {{}}\n")
    done = nvshmem_jobs.compile_source(["-c", source, "-o", tmp_path / "tiles.o"])
    assert done.returncode != 0 and "tile collectives are not available" in done.stderr


@pytest.mark.parametrize("way", ["shared", "tcp"])
def test_the_example(programs, way):
    """A sum around a ring, of as many PEs as there are steps."""
    source = nvshmem_jobs.ROOT / "examples/nvshmem/allreduce.cu"
    done = programs.run(programs.build("allreduce", source), 3, way=way)
    assert done.status == "passed" and done.output.count("right") == 3, done.output[-2000:]
