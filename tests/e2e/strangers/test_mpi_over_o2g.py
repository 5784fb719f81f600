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

WINDOW = r"""
/* Every rank writes to its neighbour's window. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, came = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Win window;
  MPI_Win_create(&came, sizeof came, sizeof came, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_lock_all(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_flush_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_sync(window);
  int const good = came == (rank + size - 1) % size;
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  printf("window %s\n", good ? "good" : "bad");
  MPI_Finalize();
  return !good;
}
"""

FLOOD = r"""
/* Rank 1 sends messages of 1 KiB that rank 0 receives much later, and in another order. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 5000, SIZE = 1024 };

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  char data[SIZE];
  int rank, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; rank == 1 && i < COUNT; i++) {
    memset(data, i % 251, SIZE);
    MPI_Send(data, SIZE, MPI_CHAR, 0, i % 7, MPI_COMM_WORLD);
  }
  if (rank == 1) MPI_Send(data, 0, MPI_CHAR, 0, 9, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(data, 0, MPI_CHAR, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int tag = 6; rank == 0 && tag >= 0; tag--)
    for (int i = tag; i < COUNT; i += 7) {
      MPI_Recv(data, SIZE, MPI_CHAR, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int k = 0; k < SIZE; k++) wrong += data[k] != (char)(i % 251);
    }
  if (rank == 0) printf("wrong %d\n", wrong);
  MPI_Finalize();
  return 0;
}
"""

BOTTOM = r"""
/* The data are named by absolute addresses. */
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int out[2] = {1, 2}, in[2], counts[2] = {1, 1}, places[2] = {0, 0}, one = 1;
  MPI_Datatype sent[2], got[2];
  for (int i = 0; i < 2; i++) {
    MPI_Aint place;
    MPI_Get_address(&out[i], &place);
    MPI_Type_create_hindexed(1, &one, &place, MPI_INT, &sent[i]);
    MPI_Type_commit(&sent[i]);
    MPI_Get_address(&in[i], &place);
    MPI_Type_create_hindexed(1, &one, &place, MPI_INT, &got[i]);
    MPI_Type_commit(&got[i]);
  }
  MPI_Alltoallw(MPI_BOTTOM, counts, places, sent, MPI_BOTTOM, counts, places, got, MPI_COMM_WORLD);
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
    ONE_SIDED = ("--mca", "btl", "ofi,self", "--mca", "btl_ofi_provider_include", "o2g")

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
        local = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm": "isolated",
        }
        names = [word for name in environment for word in ("-x", name)]
        command = [
            "mpirun.openmpi",
            "-n",
            "2",
            "--oversubscribe",
            *names,
            *line,
            str(program),
            *words,
        ]
        variables = self.installed.environment(
            FI_PROVIDER_PATH=str(provider or self.provider), **local, **environment
        )
        return subprocess.run(
            command,
            env=variables,
            timeout=LIMIT_S,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
        )


def test_a_program_that_tests_between_its_work_is_not_put_to_sleep(mpi):
    done = mpi.run(mpi.build("polling", POLLING))
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("sleeps ")]
    assert int(line.split()[1]) <= 20, done.stdout


def test_windows_go_over_o2g_by_the_documented_line(mpi):
    done = mpi.run(mpi.build("window", WINDOW), line=mpi.LINE + mpi.ONE_SIDED, TND_LOG="info")
    assert done.returncode == 0 and done.stdout.count("window good") == 2, done.stdout
    # Messages and windows have an endpoint of each rank's own.
    assert done.stdout.count("is open, driven by") >= 4, done.stdout


def test_a_flood_beyond_all_limits_of_memory_is_received(mpi):
    done = mpi.run(mpi.build("flood", FLOOD), TND_O2G_DUMP_SOFT="256K", TND_O2G_DUMP_HARD="1M")
    assert done.returncode == 0 and "wrong 0" in done.stdout, done.stdout


def test_data_at_null_end_the_job_with_a_line_and_not_with_a_fault(mpi):
    done = mpi.run(mpi.build("bottom", BOTTOM))
    if done.returncode == 0:
        return  # an Open MPI that passes addresses
    assert "a request with 4 bytes at the address NULL fails" in done.stdout, done.stdout
    assert "Segmentation fault" not in done.stdout


def test_a_misspelt_setting_ends_the_job_and_names_the_right_one(mpi):
    done = mpi.run(mpi.build("window", WINDOW), TND_O2G_DUMP_SOTF="1M")
    assert done.returncode != 0
    assert "TND_O2G_DUMP_SOTF" in done.stdout and "TND_O2G_DUMP_SOFT" in done.stdout, done.stdout


def test_a_value_that_does_not_parse_is_an_error_and_not_a_warning(mpi):
    done = mpi.run(mpi.build("window", WINDOW), TND_O2G_TICK="7")
    assert done.returncode != 0
    assert [
        line
        for line in done.stdout.splitlines()
        if "tanada error: " in line and "TND_O2G_TICK=7" in line
    ], done.stdout
