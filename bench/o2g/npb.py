"""The NAS Parallel Benchmarks 3.4, built from a given source tree, in the same way for every MPI.

The wheels of Open MPI and MPICH have no Fortran compiler wrapper. The Fortran programs are
therefore compiled with the few constants below and linked with programs/mpi_fortran.c, which passes
each call to the C library.
"""

import math
import pathlib
import shutil
import subprocess

from runs import Experiment, Figure

BENCHMARKS = ("IS", "CG", "MG", "LU", "FT", "SP", "BT", "EP")
BINDING = pathlib.Path(__file__).resolve().parent / "programs/mpi_fortran.c"
# The numbers of programs/mpi_fortran.c.
CONSTANTS = {
    "mpi_comm_world": -1001,
    "mpi_status_size": 8,
    "mpi_any_source": -1002,
    "mpi_any_tag": -1003,
    "mpi_success": 0,
    "mpi_err_other": 15,
    "mpi_max": 1,
    "mpi_min": 2,
    "mpi_sum": 3,
    "mpi_integer": 1,
    "mpi_real": 2,
    "mpi_double_precision": 3,
    "mpi_complex": 4,
    "mpi_double_complex": 5,
    "mpi_logical": 6,
}
# The output at the end of a run, converted to figures.
REPORT = (
    'out=$(mktemp); "$@" >$out 2>&1; code=$?; cat $out; '
    "grep -q 'Verification *= *SUCCESSFUL' $out && [ $code = 0 ] || exit 1; "
    "sed -n -e 's/^ *Mop.s total *= *\\([0-9.E+]*\\)/figure mops \\1/p' "
    "-e 's/^ *Time in seconds *= *\\([0-9.E+]*\\)/figure seconds \\1/p' $out; rm -f $out"
)


def can_run(benchmark, ranks):
    """BT and SP run on a square of ranks, the others on a power of two."""
    if benchmark in ("BT", "SP"):
        return math.isqrt(ranks) ** 2 == ranks
    return benchmark == "EP" or ranks & (ranks - 1) == 0


def make_definitions(mpi, folder):
    return "\n".join(
        (
            # An mpif.h has to permit rank and type mismatches between calls of one external
            # procedure.
            f"MPIFC = gfortran -I{folder} -fallow-argument-mismatch -fallow-invalid-boz -w",
            f"FLINK = {mpi.compiler}",
            f"FMPI_LIB = {folder}/mpi_fortran.o -lgfortran -lm",
            "FMPI_INC =",
            "FFLAGS = -O3",
            "FLINKFLAGS = -O3",
            f"MPICC = {mpi.compiler} -w",
            f"CLINK = {mpi.compiler}",
            "CMPI_LIB = -lm",
            "CMPI_INC =",
            "CFLAGS = -O3",
            "CLINKFLAGS = -O3",
            "CC = gcc",
            "BINDIR = ../bin",
            "RAND = randi8",
            "",
        )
    )


def prepare(source, folder, mpi):
    """A copy of the source, set up for one MPI."""
    tree = folder / f"npb.{mpi.name}"
    if tree.exists():
        return tree
    shutil.copytree(source, tree)
    (tree / "bin").mkdir(exist_ok=True)
    lines = ["      double precision mpi_wtime", "      external mpi_wtime"]
    for name, value in CONSTANTS.items():
        lines += [f"      integer {name}", f"      parameter ({name} = {value})"]
    (tree / "mpif.h").write_text("\n".join(lines) + "\n")
    subprocess.run(
        [mpi.compiler, "-O2", "-std=c11", "-c", BINDING, "-o", tree / "mpi_fortran.o"],
        check=True,
        timeout=60,
    )
    (tree / "config/make.def").write_text(make_definitions(mpi, tree))
    return tree


def program(source, folder, mpi, benchmark, class_name):
    """The program of a benchmark, built if necessary."""
    path = folder / f"npb.{mpi.name}/bin" / f"{benchmark.lower()}.{class_name}.x"
    if not path.exists():
        tree = prepare(source, folder, mpi)
        # Objects of another class must be removed.
        subprocess.run(
            ["make", "-s", "-C", tree / benchmark, "clean"], capture_output=True, timeout=60
        )
        done = subprocess.run(
            ["make", "-C", tree, benchmark.lower(), f"CLASS={class_name}"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if not path.exists():
            raise RuntimeError(
                f"{benchmark}.{class_name} for {mpi.title} does not build: {done.stdout[-800:]}{done.stderr[-800:]}"
            )
    return path


def experiment(source, folder, benchmark, class_name, ranks):
    """A benchmark of a class, and how measure() launches a set-up of it."""

    def launch(setup):
        built = program(source, folder, setup.mpi, benchmark, class_name)
        return ["sh", "-c", REPORT, "npb", *setup.launch(ranks, built)], setup.all_environment()

    # IS has its own bar in every class: to be ahead.
    bar = 1.0 if benchmark == "IS" else 0.97
    figure = Figure(
        "mops", f"NPB {benchmark}.{class_name}, {ranks} ranks", "Mop/s", 1, "higher", bar
    )
    return Experiment(
        f"{benchmark}.{class_name}", benchmark, (), (figure,), ranks=ranks, timeout_s=180
    ), launch
