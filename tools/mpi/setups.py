#!/usr/bin/env python3
"""The MPI set-ups of this machine, with the commands that compile and launch a program for each.

usage: setups.py [--provider FOLDER]. Prints the set-ups as JSON, missing ones with the reason.

A set-up is an MPI and the transport of its messages, which is always TCP: shared memory is off. The
MPIs come from tools/mpi/install.sh. A set-up called "MPI o2g" loads libo2g-fi.so from FOLDER, by
default build/dev/lib."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-mpi"
PROVIDER = ROOT / "build/dev/lib"
# Allow root, more ranks than processors, and messages between ranks of a node over the network.
# MPIs do not by default.
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
    is_openmpi: bool

    def is_wrapper_broken(self):
        """MPICH's compiler is a script that fails if the name of its folder contains a blank."""
        return not self.is_openmpi and any(letter.isspace() for letter in self.compiler)

    def compile_command(self):
        """The compiler, with the option that finds mpi.h."""
        if not self.is_wrapper_broken():
            return [self.compiler]
        return ["gcc", f"-I{pathlib.Path(self.compiler).parents[1] / 'include'}"]

    def link_options(self):
        """Options after the sources."""
        if not self.is_wrapper_broken():
            return []
        libraries = pathlib.Path(self.compiler).parents[1] / "lib"
        return [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--enable-new-dtags", "-lmpi"]

    def missing(self):
        """The reason why this MPI is not usable on this machine, or None."""
        for program in (self.compiler, self.launcher):
            if not shutil.which(program):
                return f"{program} is not there: tools/mpi/install.sh"
        return None


def environment_of(name):
    return ENVIRONMENTS / name / "bin"


def mpis():
    """All known MPIs, whether installed or not."""
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
    """An MPI over one transport. `options` are for the launcher, `environment` also for ranks."""

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
        """The reason why this set-up cannot run on this machine, or None."""
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
        """The command that runs `count` ranks of the program. With hosts, the ranks are distributed
        over them, and `agent HOST COMMAND ...` takes the place of ssh."""
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
                # Without this, Open MPI 4 requires ssh even where all ranks are on this host.
                command += ["--mca", "plm", "isolated"]
            # Open MPI passes only these variables to ranks on other hosts. On this host -x has no
            # effect.
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
        """This process's environment without settings of providers, with those of the set-up."""
        foreign = ("FI_", "UCX_", "OMPI_", "MPIR_", "PMIX_", "PRTE_", "HYDRA_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {**kept, **ENVIRONMENT, **self.environment}


def mca(**values):
    return tuple(word for name, value in values.items() for word in ("--mca", name, value))


def openmpi_setups(mpi, provider):
    is_old = mpi.name == "openmpi4"
    # In Open MPI 5 one variable selects libfabric's provider for all components.
    include = "mtl_ofi_provider_include" if is_old else "opal_common_ofi_provider_include"
    # One-sided operations use a separate component. Over TCP, Open MPI 4 has only one that works,
    # which sends messages. With o2g they use its remote memory access.
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
    """All known set-ups. missing() returns why one is not usable."""
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
