"""MPI programs over o2g by the lines of docs/o2g.md, as an outsider types them, under the system's Open MPI."""

import shutil
import subprocess

import pytest

LIMIT_S = 120

POLLING = r"""
/* Looks for a message between pieces of its own work. Prints how often MPI_Test put the thread to sleep. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>

static long sleep_count(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, word = 0, has_come = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    long sleeps = 0;
    for (int piece = 0; piece < 20000 && sleeps < 100; piece++) {
      for (double const end = MPI_Wtime() + 2e-6; MPI_Wtime() < end;) continue;
      long const before = sleep_count();
      MPI_Test(&request, &has_come, MPI_STATUS_IGNORE);
      sleeps += sleep_count() - before;
    }
    MPI_Send(&rank, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    printf("sleeps %ld\n", sleeps);
  }
  MPI_Finalize();
  return 0;
}
"""


@pytest.fixture(scope="module")
def mpi(installed, tmp_path_factory):
    """The system's Open MPI and the installed provider."""
    if not shutil.which("mpicc.openmpi") or not shutil.which("mpirun.openmpi"):
        pytest.skip("the system has no Open MPI: apt-get install libopenmpi-dev openmpi-bin")
    (folder,) = {path.parent for path in installed.path.rglob("libo2g-fi.so")}
    return Mpi(installed, folder, tmp_path_factory.mktemp("mpi"))


class Mpi:
    LINE = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "o2g")

    def __init__(self, installed, provider, folder):
        self.installed, self.provider, self.folder = installed, provider, folder

    def build(self, name, text):
        source = self.folder / f"{name}.c"
        source.write_text(text)
        self.installed.must("mpicc.openmpi", "-O2", "-Wall", source, "-o", self.folder / name)
        return self.folder / name

    def run(self, program, *words, line=LINE, provider=None, **environment):
        """A finished job of two ranks: its status and its output, both streams together."""
        # What a test machine needs besides: it may be root's, have few processors and no ssh.
        local = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "isolated"}
        names = [f"-x{name}" for name in environment]
        command = ["mpirun.openmpi", "-n", "2", "--oversubscribe", *names, *line, str(program), *words]
        variables = self.installed.environment(FI_PROVIDER_PATH=str(provider or self.provider), **local, **environment)
        return subprocess.run(command, env=variables, timeout=LIMIT_S, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)


def test_a_program_that_tests_between_its_work_is_not_put_to_sleep(mpi):
    done = mpi.run(mpi.build("polling", POLLING))
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("sleeps ")]
    assert int(line.split()[1]) <= 20, done.stdout
