#!/usr/bin/env python3
"""The MPI set-ups of this machine: how each is compiled for and launched, over TCP alone, shared memory off.

usage: setups.py [--provider FOLDER]. Prints them as JSON, those that are missing with the reason.

A set-up is an MPI and what carries its messages. The MPIs come from tools/mpi/install.sh; a set-up called "MPI o2g" loads
libo2g-fi.so from FOLDER, build/dev/lib unless told."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-mpi"
PROVIDER = ROOT / "build/dev/lib"
# Ranks may outnumber processors, and the one who tests may be root. Neither is what an MPI allows by itself.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "MPIR_CVAR_NOLOCAL": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


@dataclasses.dataclass(frozen=True)
class Mpi:
    """An MPI: its compiler for C, its launcher, and a Python whose mpi4py finds it."""

    name: str
    title: str
    compiler: str
    launcher: str
    python: str
    # What must be in the environment for Python to find the library; the wheels say it themselves.
    is_openmpi: bool

    def is_wrapper_broken(self):
        """MPICH's compiler is a script that splits the name of its own folder at blanks."""
        return not self.is_openmpi and any(letter.isspace() for letter in self.compiler)

    def compile_command(self):
        """The compiler, and where it finds mpi.h."""
        if not self.is_wrapper_broken():
            return [self.compiler]
        return ["gcc", f"-I{pathlib.Path(self.compiler).parents[1] / 'include'}"]

    def link_options(self):
        """What follows the sources."""
        if not self.is_wrapper_broken():
            return []
        libraries = pathlib.Path(self.compiler).parents[1] / "lib"
        return [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--enable-new-dtags", "-lmpi"]

    def missing(self):
        """Why this MPI cannot be used here, or None."""
        for program in (self.compiler, self.launcher):
            if not shutil.which(program):
                return f"{program} is not there: tools/mpi/install.sh"
        return None


def environment_of(name):
    return ENVIRONMENTS / name / "bin"


def mpis():
    """Every MPI known, there or not."""
    found = [
        Mpi(
            "openmpi4",
            "Open MPI 4.1",
            "/usr/bin/mpicc.openmpi",
            "/usr/bin/mpirun.openmpi",
            str(environment_of("openmpi4") / "python"),
            True,
        )
    ]
    for name, title, is_openmpi in (("openmpi5", "Open MPI 5", True), ("mpich5", "MPICH 5", False)):
        folder = environment_of(name)
        found.append(
            Mpi(
                name,
                title,
                str(folder / "mpicc"),
                str(folder / "mpiexec"),
                str(folder / "python"),
                is_openmpi,
            )
        )
    return found


@dataclasses.dataclass(frozen=True)
class Setup:
    """An MPI over one carrier of messages. `options` go to the launcher, `environment` to it and to every rank."""

    mpi: Mpi
    carrier: str
    options: tuple
    environment: dict
    provider: pathlib.Path | None = None

    @property
    def name(self):
        return f"{self.mpi.name} {self.carrier}"

    @property
    def is_ours(self):
        return self.carrier == "o2g"

    def missing(self):
        """Why this set-up cannot run here, or None."""
        if self.provider and not (self.provider / "libo2g-fi.so").is_file():
            return f"{self.provider}/libo2g-fi.so is not built"
        return self.mpi.missing()

    def compile(self, source, program, *more):
        """The command that compiles the C file `source` to `program`."""
        flags = [
            "-O2",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            str(program),
            str(source),
            *more,
        ]
        return [*self.mpi.compile_command(), *flags, *self.mpi.link_options()]

    def launch(self, count, program, *words, hosts=None, agent=None):
        """The command that runs `count` ranks of the program. With hosts, one rank on each in turn, which are reached by
        `agent HOST COMMAND ...` in place of ssh."""
        if self.mpi.is_openmpi:
            command = [
                self.mpi.launcher,
                "-n",
                str(count),
                "--oversubscribe",
                "--bind-to",
                "none",
                *self.options,
            ]
            if hosts:
                slots = -(-count // len(hosts))
                command += [
                    "--host",
                    ",".join(f"{host}:{slots}" for host in hosts),
                    "--map-by",
                    "node",
                    "--mca" if self.mpi.name == "openmpi4" else "--prtemca",
                    "plm_rsh_agent" if self.mpi.name == "openmpi4" else "plm_ssh_agent",
                    str(agent),
                ]
            elif self.mpi.name == "openmpi4":
                command += [
                    "--mca",
                    "plm",
                    "isolated",
                ]  # it wants an ssh to be there even where it needs none
            # Open MPI passes on only what it is told, and only where ranks are on other hosts; it does no harm elsewhere.
            for name in self.environment:
                command += ["-x", name]
        else:
            command = [self.mpi.launcher, "-n", str(count)]
            if hosts:
                command += [
                    "-launcher",
                    "ssh",
                    "-launcher-exec",
                    str(agent),
                    "-hosts",
                    ",".join(hosts),
                    "-ppn",
                    "1",
                ]
        return [*command, str(program), *words]

    def all_environment(self):
        """What the launcher's environment is: this process's, without other choices of providers, and the set-up's."""
        foreign = ("FI_", "UCX_", "OMPI_", "MPIR_", "PMIX_", "PRTE_", "HYDRA_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**kept, **ENVIRONMENT, **self.environment}


def mca(**values):
    return tuple(word for name, value in values.items() for word in ("--mca", name, value))


def openmpi_setups(mpi, provider):
    is_old = mpi.name == "openmpi4"
    # Open MPI 5 asks libfabric for the provider through a variable shared by all its parts.
    include = "mtl_ofi_provider_include" if is_old else "opal_common_ofi_provider_include"
    # One-sided operations go their own way: over messages in Open MPI 4, which has no other that works over TCP alone, and
    # over o2g's remote memory access with o2g.
    one_sided = {"osc": "pt2pt"} if is_old else {}
    remote = {"btl_ofi_provider_include": "o2g"} if is_old else {}
    yield Setup(mpi, "btl tcp", mca(pml="ob1", btl="tcp,self", **one_sided), {})
    yield Setup(
        mpi,
        "ofi tcp",
        mca(
            pml="cm",
            mtl="ofi",
            btl="tcp,self",
            **one_sided,
            **{include: "tcp;ofi_rxm" if is_old else "tcp"},
        ),
        {},
    )
    yield Setup(
        mpi,
        "ucx tcp",
        mca(pml="ucx", pml_ucx_tls="any", pml_ucx_devices="any", osc="ucx"),
        {"UCX_TLS": "tcp,self"},
    )
    yield Setup(
        mpi,
        "o2g",
        mca(pml="cm", mtl="ofi", btl="ofi,self", **{include: "o2g"}, **remote),
        {"FI_PROVIDER_PATH": str(provider)},
        provider,
    )


def mpich_setups(mpi, provider):
    ofi = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1"}
    yield Setup(mpi, "ofi tcp", (), {**ofi, "FI_PROVIDER": "tcp"})
    yield Setup(
        mpi, "ofi tcp async", (), {**ofi, "FI_PROVIDER": "tcp", "MPIR_CVAR_ASYNC_PROGRESS": "1"}
    )
    yield Setup(
        mpi,
        "ucx tcp",
        (),
        {"MPIR_CVAR_CH4_NETMOD": "ucx", "MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"},
    )
    yield Setup(
        mpi, "o2g", (), {**ofi, "FI_PROVIDER": "o2g", "FI_PROVIDER_PATH": str(provider)}, provider
    )


def setups(provider=PROVIDER):
    """Every set-up known, there or not; ask missing()."""
    found = []
    for mpi in mpis():
        found += (openmpi_setups if mpi.is_openmpi else mpich_setups)(
            mpi, pathlib.Path(provider).resolve()
        )
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--provider", default=PROVIDER, type=pathlib.Path)
    known = setups(parser.parse_args().provider)
    print(
        json.dumps(
            [
                {
                    "name": each.name,
                    "missing": each.missing(),
                    "compile": each.compile("SOURCE.c", "PROGRAM"),
                    "launch": each.launch("N", "PROGRAM"),
                    "environment": {**ENVIRONMENT, **each.environment},
                }
                for each in known
            ],
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
