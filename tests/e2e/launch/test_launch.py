"""Jobs under a launcher: processes that leave in order, die or abort, also with MPI in them."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
VICTIM = BUILD / "bin/launch_victim"
MPI_VICTIM = BUILD / "bin/launch_victim_mpi"
LAUNCHER = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
GO_ON = ["--enable-recovery"]  # the launcher does not end the others when a process dies
SOON_S = 10  # limit of ends that no timeout causes; barriers wait for 20 s

pytestmark = [
    pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here: install openmpi-bin"),
    pytest.mark.skipif(not VICTIM.exists(), reason="not built: libpmix-dev is not installed"),
]


class Job:
    def __init__(self, count, words, options=()):
        self.count = count
        command = [*LAUNCHER, *options, "-n", str(count), *[str(word) for word in words]]
        environment = {**os.environ, "TND_PLUGIN_PATH": str(BUILD / "lib")}
        self.lines = []
        self.start = time.monotonic()
        # With a session of its own, processes that the job leaves can be found.
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def read_until(self, word, count):
        """Read lines until `count` of them contain the word."""
        while sum(word in line for line in self.lines) < count:
            line = self.process.stdout.readline()
            assert line, "".join(self.lines)
            self.lines.append(line)

    def pids(self):
        """The process ids, by rank."""
        here = [line.split() for line in self.lines if ": here " in line]
        return {int(words[0][:-1]): int(words[2]) for words in here}

    def end(self, within_s=SOON_S):
        """Return the exit code, and keep the output in `text`. Fail if a process remains."""
        try:
            rest, _ = self.process.communicate(timeout=within_s + 5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        self.text = "".join(self.lines) + rest
        self.lines = self.text.splitlines(keepends=True)
        assert time.monotonic() - self.start < within_s + 5, self.text
        for pid in self.pids().values():
            assert is_gone(pid), f"process {pid} is left"
        return self.process.returncode

    def count_of(self, word):
        return sum(word in line for line in self.lines)


def is_gone(pid):
    limit = time.monotonic() + SOON_S
    while time.monotonic() < limit:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def run(count, *words, options=(), within_s=SOON_S):
    job = Job(count, words, options)
    job.code = job.end(within_s)
    return job


def assert_next_job_runs():
    assert run(3, VICTIM, "leave").code == 0


@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_leave_in_good_order(count):
    job = run(count, VICTIM, "leave")
    assert job.code == 0, job.text
    assert job.count_of("met") == count


def test_64_processes_meet():
    job = run(64, VICTIM, "leave", within_s=60)
    assert job.code == 0, job.text
    assert job.count_of("met") == 64


@pytest.mark.parametrize("rank", [0, 2])
def test_a_job_ends_when_a_process_is_killed(rank):
    job = Job(3, [VICTIM, "hang", rank])
    job.read_until("met", 3)
    os.kill(job.pids()[rank], signal.SIGKILL)
    assert job.end() != 0
    assert job.count_of("ended with OK") == 0, job.text
    assert_next_job_runs()


@pytest.mark.parametrize("what", ["die", "exit", "abort", "watch"])
def test_the_others_learn_who_is_gone(what):
    job = run(3, VICTIM, what, 1, options=GO_ON)
    # PMIx reports an abort before the process has ended, and without its rank.
    assert job.count_of("ended with TND_EPEER" + (", lost 1" if what != "abort" else "")) == 2, (
        job.text
    )
    assert_next_job_runs()


@pytest.mark.parametrize("rank", [0, 1])
def test_descriptors_of_who_is_killed_are_not_waited_for(rank):
    job = Job(3, [VICTIM, "descriptors", rank], GO_ON)
    job.read_until("met", 3)
    os.kill(job.pids()[rank], signal.SIGKILL)
    job.end()
    assert job.count_of(f"ended with TND_EPEER, lost {rank}") == 2, job.text


def test_who_ends_without_leaving_has_failed():
    job = run(2, VICTIM, "exit", 1)
    assert job.code != 0


def test_an_abort_ends_all_with_its_code():
    job = run(3, VICTIM, "abort", 1)
    # Open MPI 4's mpirun itself sometimes crashes when it ends such a job.
    assert job.code in (7, -signal.SIGSEGV, -signal.SIGABRT), job.text
    assert "rank 1 aborts the job with code 7: as told" in job.text


def test_who_leaves_early_is_not_lost():
    job = run(3, VICTIM, "early", 1)
    assert job.code == 0, job.text
    assert job.count_of("lost -1") == 3, job.text


def test_processes_see_that_the_launcher_is_gone():
    job = Job(2, [VICTIM, "hang", 1])
    job.read_until("met", 2)
    job.process.kill()
    try:
        assert is_gone(job.pids()[0])  # rank 0 was waiting for rank 1
    finally:
        # Rank 1 sleeps outside of the library, and detects nothing.
        os.kill(job.pids()[1], signal.SIGKILL)
    job.process.communicate(timeout=SOON_S)


needs_mpi = pytest.mark.skipif(
    not MPI_VICTIM.exists(), reason="not built: libopenmpi-dev is not installed"
)


@needs_mpi
@pytest.mark.parametrize("count", [1, 3])
def test_all_leave_a_job_of_mpi(count):
    job = run(count, MPI_VICTIM, "leave")
    assert job.code == 0, job.text
    assert job.count_of("met") == count


@pytest.fixture
def kept(tmp_path):
    """Options that move Open MPI's shared memory, which killed ranks leave, to tmp_path."""
    return [
        word
        for part in ("vader", "sm")
        for word in ("--mca", f"btl_{part}_backing_directory", str(tmp_path))
    ]


# The launcher ends the other processes, so none of them reports a failed rank.
@needs_mpi
@pytest.mark.parametrize("what", ["die", "exit"])
def test_a_job_of_mpi_ends_when_a_process_does(what, kept):
    job = run(3, MPI_VICTIM, what, 1, options=kept)
    assert job.code != 0, job.text
    assert job.count_of("ended with") == 0, job.text


@needs_mpi
def test_an_abort_ends_a_job_of_mpi_with_its_code(kept):
    job = run(3, MPI_VICTIM, "abort", 1, options=kept)
    assert job.code == 7, job.text
    assert "process 1 ends the job with code 7: as told" in job.text


# The bootstrap is used between MPI_Init and MPI_Finalize, around them, and overlapping with them.
@pytest.mark.parametrize("order", ["ioxcxf", "oixfxc", "oxicxf", "ioxfxc"])
def test_mpi_in_the_same_process(order):
    program = BUILD / "bin/launch_with_mpi"
    if not program.exists():
        pytest.skip("not built: libopenmpi-dev is not installed")
    job = run(3, program, order, options=["--mca", "btl", "self,vader"], within_s=30)
    assert job.code == 0, job.text
    assert job.count_of("well") == 3


def alone(**variables):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PMI", "OMPI", "SLURM"))
    }
    environment.update(TND_PLUGIN_PATH=str(BUILD / "lib"), **variables)
    return subprocess.run(
        [VICTIM, "leave"], env=environment, capture_output=True, text=True, timeout=60
    )


def test_without_a_launcher_a_process_is_alone():
    done = alone()
    assert done.returncode == 0 and "0: met" in done.stdout, done.stdout + done.stderr


def test_a_launcher_without_pmix_is_refused():
    done = alone(PMI_RANK="0", PMI_SIZE="2")
    assert done.returncode == 2 and "oshrun" in done.stdout, done.stdout


def test_a_launcher_that_is_gone_is_said():
    done = alone(PMIX_NAMESPACE="nobody's", PMIX_RANK="0")
    assert done.returncode == 2 and "TND_BOOTSTRAP=alone" in done.stdout, done.stdout
    done = alone(PMIX_NAMESPACE="nobody's", PMIX_RANK="0", TND_BOOTSTRAP="alone")
    assert done.returncode == 0


def test_a_missing_plugin_names_the_package(tmp_path):
    copy = shutil.copy(VICTIM, tmp_path)  # a program searches its own folder for plugins
    environment = {
        **os.environ,
        "PMIX_NAMESPACE": "x",
        "PMIX_RANK": "0",
        "TND_PLUGIN_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [copy, "leave"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "apt-get install libpmix2" in done.stdout, done.stdout
