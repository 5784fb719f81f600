"""The OpenSHMEM implementations that are compared, and the settings of each: rivals run in every
setting that may be their best.
"""

import dataclasses
import os
import pathlib
import shutil

# PEs may outnumber processors, and the user may be root. Launchers allow neither by default, and
# each needs another option. Nothing is bound: a job with more PEs than processors would bind
# several to the same one.
LAUNCHERS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_plm": "isolated",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
# For the symmetric heap: enough for the largest collective of 16 PEs. Open MPI 4 only has the older
# name.
HEAP = {"SHMEM_SYMMETRIC_SIZE": "192M", "SHMEM_SYMMETRIC_HEAP_SIZE": "192M"}
# Settings of the caller for some implementations must not affect all of them.
FOREIGN = ("FI_", "UCX_", "OMPI_", "PMIX_", "PRTE_", "SHMEM_", "SMA_", "TND_")


@dataclasses.dataclass(frozen=True)
class Library:
    """An implementation: its compiler and its launcher."""

    name: str
    compiler: str
    launcher: str
    absent: str  # what to do if it is missing

    def missing(self):
        """Why it cannot be used here, or None."""
        for program in (self.compiler, self.launcher):
            if not shutil.which(program):
                return f"missing: no {program}: {self.absent}"
        return None

    def compile(self, source, program):
        return [
            self.compiler,
            "-O2",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-o",
            str(program),
            str(source),
        ]


@dataclasses.dataclass(frozen=True)
class Setup:
    """A library and the environment that selects one transport: "node", the memory that PEs share,
    or "tcp".
    """

    library: Library
    transport: str
    variant: str
    environment: dict
    spins: bool = False  # waiting PEs never yield their processor

    @property
    def name(self):
        return f"{self.library.name} {self.variant}"

    @property
    def is_ours(self):
        return self.library.name == "ours"

    def launch(self, pes, program, *words):
        return [self.library.launcher, "-n", str(pes), str(program), *words]

    def all_environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {**kept, **LAUNCHERS, **HEAP, **self.environment}

    def clean(self):
        """Removes its remains after it was ended: for libfabric's shm, the memory of dead
        processes, by their PIDs.
        """
        if "shm" not in self.environment.get("SHMEM_OFI_PROVIDER", ""):
            return
        for path in pathlib.Path("/dev/shm").glob("*:*:*"):
            owner = path.name.partition(":")[0]
            # A zombie process has no program any more.
            if owner.isdigit() and not pathlib.Path("/proc", owner, "exe").exists():
                path.unlink(missing_ok=True)


def ours(prefix):
    prefix = pathlib.Path(prefix).resolve()
    library = Library(
        "ours",
        str(prefix / "bin/oshcc"),
        str(prefix / "bin/oshrun"),
        "--ours names a build or an installation",
    )
    yield Setup(library, "node", "node", {})
    yield Setup(library, "tcp", "o2g", {"TND_PGAS_NODE": "none"})


def openmpi(compiler="oshcc", launcher="oshrun"):
    """Open MPI's, over UCX. Its one-sided MPI component for RDMA, which no program here uses,
    crashes in shmem_finalize.
    """
    library = Library("openmpi", compiler, launcher, "openmpi-bin, libopenmpi-dev")
    always = {"OMPI_MCA_osc": "^rdma"}
    yield Setup(library, "node", "posix", {**always, "UCX_TLS": "posix,self"})
    yield Setup(library, "node", "sysv", {**always, "UCX_TLS": "sysv,self"})
    # Its collectives use MPI, which would use shared memory, or its own algorithms.
    tcp = {**always, "UCX_TLS": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
    yield Setup(library, "tcp", "ucx", tcp)
    yield Setup(library, "tcp", "ucx basic", {**tcp, "OMPI_MCA_scoll": "^mpi"})


def sandia(prefix):
    """Sandia OpenSHMEM over libfabric, with two algorithms of reductions. A third, which it chooses
    for few PEs, gives wrong sums over libfabric 1.17's shm.
    """
    prefix = pathlib.Path(prefix).resolve() if prefix else pathlib.Path("/nowhere")
    library = Library(
        "sandia",
        str(prefix / "bin/oshcc"),
        str(prefix / "bin/oshrun"),
        "--sandia names where it is installed",
    )
    shm = {"SHMEM_OFI_PROVIDER": "shm"}
    yield Setup(library, "node", "shm", {**shm, "SHMEM_REDUCE_ALGORITHM": "recdbl"}, spins=True)
    yield Setup(
        library,
        "node",
        "shm no cma",
        {**shm, "FI_SHM_DISABLE_CMA": "1", "SHMEM_REDUCE_ALGORITHM": "ring"},
        spins=True,
    )
    for variant, provider in (("rxm", "tcp;ofi_rxm"), ("tcp", "tcp"), ("net", "net;ofi_rxm")):
        yield Setup(library, "tcp", variant, {"SHMEM_OFI_PROVIDER": provider}, spins=True)
