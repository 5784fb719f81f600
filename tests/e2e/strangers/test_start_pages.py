"""The pages of docs/start, followed to the letter: programs are saved, commands run in one shell."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/conformance/comex"))
import comex_jobs  # noqa: E402
import global_arrays  # noqa: E402

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"// (\S+\.\w+)\n")
LIMIT_S = 300
SEPARATOR = "\x01"
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
FOREIGN = ("TND_", "TANADA_", "SHMEM_", "LD_", "FI_", "UCX_", "OMPI_", "PMIX_")


def environment(home):
    """That of a user who has set nothing, with what Open MPI needs for root and on few processors."""
    names = [name for name in os.environ if not name.startswith(FOREIGN)]
    return {
        **{name: os.environ[name] for name in names},
        **comex_jobs.ENVIRONMENT,
        "HOME": str(home),
    }


class Reader:
    """A user with an installed Tanada, in an empty folder."""

    def __init__(self, folder, prefix):
        self.home, self.folder = folder / "home", folder / "work"
        self.home.mkdir()
        self.folder.mkdir()
        (self.home / "tanada").symlink_to(prefix)

    def shell(self, script):
        """The output of a script: of its commands, as one would see it."""
        process = subprocess.Popen(
            ["bash", "-eu", "-c", script], cwd=self.folder, start_new_session=True,
            env=environment(self.home), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        finally:
            # A daemon that a failed script has left.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        assert process.returncode == 0, output
        return output

    def follow(self, text, is_run=lambda script: not script.startswith("nvcc ")):
        """Do what a page describes. Returns (expected text, output of the commands above it)."""
        scripts, expected = [], {}
        for language, body in FENCE.findall(text):
            if language in ("c", "cuda"):
                (self.folder / FILE.match(body)[1]).write_text(body)
            elif language == "sh" and is_run(body):
                scripts.append(body)
            elif language == "text":
                expected[len(scripts) - 1] = body
        output = self.shell("printf '\\001'\n".join(scripts)).split(SEPARATOR)
        return [(body, output[index]) for index, body in expected.items()]


def lacks_line(text, output):
    """A line of the text that the output does not have, or has less often, or None.

    Lines of several processes have no order.
    """
    rest = output.splitlines()
    for line in text.splitlines():
        pattern = ".*".join(map(re.escape, line.split("…")))
        index = next((i for i, other in enumerate(rest) if re.fullmatch(pattern, other)), None)
        if index is None:
            return line
        del rest[index]
    return None


def page(name):
    return (ROOT / f"docs/start/{name}.md").read_text()


def check(reader, name):
    results = reader.follow(page(name))
    for text, output in results:
        assert lacks_line(text, output) is None, f"{text}\nis not in\n{output}"
    return results


@pytest.fixture
def reader(installed, tmp_path):
    return Reader(tmp_path, installed.path)


def require(*commands):
    lacking = [name for name in commands if shutil.which(name) is None]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")


def test_a_kernel_reads_and_writes_files(reader):
    assert check(reader, "kernel")


def test_a_snapshot_in_a_pool(reader):
    check(reader, "snapshot")
    assert (reader.folder / "ripples.gif").read_bytes().startswith(b"GIF8")
    assert (reader.folder / "0000.npy").read_bytes().startswith(b"\x93NUMPY")


def test_an_mpi_program_over_o2g(reader):
    require("mpicc", "mpirun")
    assert check(reader, "mpi")


def test_openshmem_with_gpu_memory(reader):
    require("mpirun")
    assert check(reader, "openshmem")


@pytest.mark.slow
@pytest.mark.limit(3600)
def test_global_arrays_larger_than_memory(reader):
    require("mpicc", "mpirun")
    try:
        build = global_arrays.make()
    except global_arrays.Missing as reason:
        pytest.skip(str(reason))
    (reader.home / "ga").symlink_to(build.parent / "prefix")
    assert len(check(reader, "global_arrays")) == 2


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize("name", ["kernel", "openshmem"])
def test_the_program_is_taken_by_nvcc(reader, name):
    text = page(name).replace("-arch=native", "-arch=sm_90")
    scripts = [body for _, body in FENCE.findall(text) if body.startswith("nvcc ")]
    assert len(scripts) == 1
    reader.follow(
        f"```sh\nexport PATH={pathlib.Path(NVCC).parent}:$PATH\n```\n{text}",
        is_run=lambda script: script.startswith(("nvcc ", "export ")),
    )


def test_an_output_that_the_page_does_not_show_is_found(reader):
    text = "```c\n// a.c\nint a;\n```\n```sh\necho one\ncat a.c\n```\n```text\none\nint b;\n```\n"
    [(expected, output)] = reader.follow(text)
    assert lacks_line(expected, output) == "int b;"
    assert lacks_line("one\n… a;\n", output) is None
    assert lacks_line("one\none\n", output) == "one"


def test_a_command_that_fails_is_found(reader):
    with pytest.raises(AssertionError, match="no_such"):
        reader.follow("```sh\ncat no_such\necho after\n```\n")
