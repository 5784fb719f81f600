"""Programs of Global Arrays' users: linked with a stock ARMCI, they run on an installed Tanada without being built again."""

import json
import os
import shutil
import subprocess

import pytest

RANKS = 4
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}

# What the stock header declares of these calls, and the library that the program is linked with: it fails if it is called.
HEADER = r"""
int ARMCI_Init(void);
int ARMCI_Finalize(void);
int ARMCI_Malloc(void **pointers, long bytes);
int ARMCI_Free(void *pointer);
int ARMCI_Put(void *source, void *target, int bytes, int rank);
int ARMCI_Rmw(int operation, void *before, void *counter, int amount, int rank);
void ARMCI_Barrier(void);
enum { ARMCI_FETCH_AND_ADD = 12 };
"""

STOCK = r"""
#include <stdlib.h>
int ARMCI_Init(void) { abort(); }
int ARMCI_Finalize(void) { abort(); }
int ARMCI_Malloc(void **pointers, long bytes) { (void)pointers, (void)bytes; abort(); }
int ARMCI_Free(void *pointer) { (void)pointer; abort(); }
int ARMCI_Put(void *source, void *target, int bytes, int rank) { (void)source, (void)target, (void)bytes, (void)rank; abort(); }
int ARMCI_Rmw(int o, void *b, void *c, int a, int r) { (void)o, (void)b, (void)c, (void)a, (void)r; abort(); }
void ARMCI_Barrier(void) { abort(); }
"""

# Each rank has 40 MiB. All but the last read a counter until the last, which has work of its own, has counted.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "armci.h"

enum { WORDS = 10 << 20 };

static int add(int *counter, int rank, int amount) {
  int before = -1;
  ARMCI_Rmw(ARMCI_FETCH_AND_ADD, &before, counter, amount, rank);
  return before;
}

int main(int argc, char **argv) {
  int me, count, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  ARMCI_Init();
  void *counters[64];
  if (ARMCI_Malloc(counters, 4096) != 0) return 2;
  int *words = malloc(WORDS * sizeof *words);
  if (words == NULL) return 3;
  for (int i = 0; i < WORDS; i++) words[i] = i ^ me;
  int zero = 0;
  ARMCI_Put(&zero, counters[(me + 1) % count], sizeof zero, (me + 1) % count);
  ARMCI_Barrier();
  for (int home = 0; home < count; home++) {
    if (me == count - 1) {
      for (int i = 0; i < WORDS; i++) wrong += words[i] != (i ^ me);
      add(counters[home], home, 1);
    } else {
      while (add(counters[home], home, 0) == 0) {
      }
    }
    ARMCI_Barrier();
  }
  for (int i = 0; i < WORDS; i++) wrong += words[i] != (i ^ me);
  int sum = 0;
  MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (me == 0) printf("%d words are wrong\n", sum);
  free(words);
  ARMCI_Free(counters[me]);
  ARMCI_Finalize();
  MPI_Finalize();
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built without Tanada: it needs libarmci.so.0, as what is linked with stock Global Arrays does."""
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        pytest.skip("there is no MPI: apt-get install openmpi-bin libopenmpi-dev")
    folder = tmp_path_factory.mktemp("stock")
    (folder / "armci.h").write_text(HEADER)
    (folder / "stock.c").write_text(STOCK)
    (folder / "program.c").write_text(PROGRAM)
    for line in (
        "mpicc -shared -fPIC -Wl,-soname,libarmci.so.0 -o libarmci.so.0 stock.c",
        "mpicc -std=c11 -O1 -Wall -Werror -o program program.c -L. -l:libarmci.so.0",
    ):
        subprocess.run(line.split(), cwd=folder, check=True, timeout=120)
    return folder / "program"


def run(installed, program, **settings):
    if not (installed.lib / "libarmci.so.0").exists():
        pytest.skip("Tanada was built without MPI")
    environment = installed.environment(**MPI, **settings)
    return installed.run(
        "mpirun", "-n", RANKS, "--oversubscribe", program, env=environment, timeout=120
    )


def test_a_program_linked_with_a_stock_armci_runs_by_the_library_path_only(installed, program):
    done = run(installed, program)
    assert done.returncode == 0 and "0 words are wrong\n" in done.stdout, done.stdout + done.stderr


def test_the_same_program_is_larger_than_memory_with_a_preloaded_library(
    installed, program, tmp_path
):
    """Memory for two of four ranks; the last line has what was moved, and the report too."""
    report = tmp_path / "report.json"
    done = run(
        installed,
        program,
        LD_PRELOAD="libcomex.so",
        TND_COMEX_MEMORY="140M",
        TND_COMEX_SWAP=f"file://{tmp_path}",
        TND_COMEX_REPORT=str(report),
    )
    assert done.returncode == 0 and "0 words are wrong\n" in done.stdout, done.stdout + done.stderr
    assert done.stderr.count("the budget was kept") == 1, done.stderr
    node = json.loads(report.read_text())["nodes"][0]
    assert node["budget_held"] is True and node["swaps_out"] > 0, node
    assert os.listdir(tmp_path) == ["report.json"]


def test_a_budget_that_cannot_hold_what_is_there_is_refused_once_with_numbers(
    installed, program, tmp_path
):
    done = run(
        installed,
        program,
        LD_PRELOAD="libcomex.so",
        TND_COMEX_MEMORY="4M",
        TND_COMEX_SWAP=f"file://{tmp_path}",
    )
    assert done.returncode != 0
    lines = [
        line
        for line in done.stderr.splitlines()
        if "TND_COMEX_MEMORY=4194304 is too small for the 4 ranks of a node" in line
    ]
    assert len(lines) == 1, done.stderr
