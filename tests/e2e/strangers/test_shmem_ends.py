"""OpenSHMEM programs that end in unusual ways: PEs that exit early, launchers that are killed, one finalize too many."""

import os
import shutil
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.usefixtures("needs_launcher")

RUN_LIMIT_S = 100
GONE_LIMIT_S = 40  # promised are a few seconds; machines of tests are busy

LEAVES = r"""
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long word, sum;

int main(int count, char **words) {
  const char *const way = words[1];
  shmem_init();
  int const me = shmem_my_pe();
  shmem_barrier_all();
  if (me == 0) {
    if (strcmp(way, "finalize") == 0) shmem_finalize();
    if (strcmp(way, "return") == 0) return 0;
    if (strcmp(way, "none") != 0) exit(0);
  }
  if (strcmp(way, "reduce") == 0) shmem_sum_reduce(SHMEM_TEAM_WORLD, &sum, &word, 1);
  if (strcmp(way, "wait") == 0) shmem_wait_until(&word, SHMEM_CMP_NE, 0);
  if (strcmp(way, "malloc") == 0) shmem_malloc(8);
  if (strcmp(way, "all") == 0 || strcmp(way, "none") == 0) exit(0);
  if (strcmp(way, "finalize-last") != 0) shmem_barrier_all();
  shmem_finalize();
  printf("PE %d has gone on\n", me);
  return count == 0;
}
"""

BUSY = r"""
#include <shmem.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  volatile unsigned long work = 0;
  shmem_init();
  printf("busy %d\n", (int)getpid());
  fflush(stdout);
  for (;;) work++;
}
"""


def oshcc(installed, folder, name, text, *flags):
    source = folder / f"{name}.c"
    source.write_text(text)
    installed.must("oshcc", "-std=c11", "-O1", *flags, "-o", folder / name, source)
    return folder / name


@pytest.fixture(scope="module")
def leaves(installed, tmp_path_factory):
    return oshcc(installed, tmp_path_factory.mktemp("leaves"), "leaves", LEAVES)


@pytest.mark.parametrize(
    "pe_count, way",
    [
        (2, "exit"),
        (4, "exit"),
        (2, "return"),
        (3, "reduce"),
        (2, "wait"),
        (2, "malloc"),
        (2, "finalize"),
    ],
)
def test_a_pe_that_leaves_while_others_need_it_ends_the_job_with_its_number(
    installed, leaves, pe_count, way
):
    done = installed.run("oshrun", "-n", pe_count, leaves, way, timeout=RUN_LIMIT_S)
    assert done.returncode != 0 and "has gone on" not in done.stdout, done.stdout + done.stderr
    assert "PE 0 has left the job" in done.stderr, done.stderr


@pytest.mark.parametrize("way", ["all", "none", "finalize-last"])
def test_pes_that_end_without_finalize_while_nobody_needs_them_end_well(installed, leaves, way):
    done = installed.run("oshrun", "-n", "3", leaves, way, timeout=RUN_LIMIT_S)
    assert done.returncode == 0 and "has left" not in done.stderr, done.stdout + done.stderr


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as about:
            return about.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("launcher", ["oshrun", "mpirun"])
def test_pes_in_their_own_code_end_when_the_launcher_is_killed(installed, tmp_path, launcher):
    program = oshcc(installed, tmp_path, "busy", BUSY)
    if launcher == "mpirun" and not shutil.which("mpirun"):
        pytest.skip("no mpirun is here: apt-get install openmpi-bin")
    own = [] if launcher == "oshrun" else ["--allow-run-as-root", "--oversubscribe"]
    command = [launcher, *own, "-n", "2", str(program)]
    with subprocess.Popen(
        command,
        env=installed.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    ) as job:
        pes = []
        try:
            for line in job.stdout:
                if line.startswith("busy "):
                    pes.append(int(line.split()[1]))
                if len(pes) == 2:
                    break
            assert len(pes) == 2
            job.send_signal(signal.SIGKILL)
            job.wait()
            end = time.monotonic() + GONE_LIMIT_S
            while any(map(is_alive, pes)) and time.monotonic() < end:
                time.sleep(0.1)
            assert [process for process in pes if is_alive(process)] == []
        finally:
            for process in filter(is_alive, pes):
                os.kill(process, signal.SIGKILL)
            job.kill()
