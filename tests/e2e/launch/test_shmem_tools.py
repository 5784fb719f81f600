"""oshcc and oshrun: in a prefix made up here, against launchers that are stubs, and with a program under a real one."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
TOOLS = BUILD / "bin"
HEADER = "int stand_in(void);\n"
LIBRARY = "int stand_in(void) { return 42; }\n"
PROGRAM = "#include <shmem.h>\nint main(void) { return stand_in() == 42 ? 0 : 1; }\n"
VERSIONS = {
    "openmpi4": "mpirun (Open MPI) 4.1.4",
    "openmpi5": "mpirun (Open MPI) 5.0.11",
    "prrte": "prterun (PRRTE) 3.0.13",
    "hydra": "HYDRA build details:\n    Version: 5.0.2",
}


def run(*words, env=None, code=0):
    done = subprocess.run(
        [str(word) for word in words], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(params=["lib", "lib64"])
def prefix(tmp_path, request):
    """An installed prefix with a stand-in for the library, at a place with a blank in its name."""
    folder = tmp_path / "a prefix"
    (folder / "bin").mkdir(parents=True)
    for name in ("oshcc", "oshc++", "oshCC", "oshcxx", "oshrun"):
        shutil.copy(TOOLS / name, folder / "bin" / name, follow_symlinks=False)
    (folder / "include/shmem").mkdir(parents=True)
    (folder / "include/shmem/shmem.h").write_text(
        f'#ifdef __cplusplus\nextern "C"\n#endif\n{HEADER}'
    )
    library = folder / request.param
    library.mkdir()
    (tmp_path / "library.c").write_text(LIBRARY)
    run("cc", "-shared", "-fPIC", tmp_path / "library.c", "-o", library / "libshmem.so")
    for suffix in ("c", "cc"):
        (tmp_path / f"program.{suffix}").write_text(PROGRAM)
    return folder


@pytest.mark.parametrize(
    "compiler, suffix", [("oshcc", "c"), ("oshc++", "cc"), ("oshCC", "cc"), ("oshcxx", "cc")]
)
def test_a_program_compiles_and_finds_its_library(prefix, tmp_path, compiler, suffix):
    run(
        prefix / "bin" / compiler,
        "-Wall",
        "-Werror",
        "-o",
        tmp_path / "program",
        tmp_path / f"program.{suffix}",
    )
    run(tmp_path / "program")


def test_compiling_and_linking_may_be_apart(prefix, tmp_path):
    done = run(prefix / "bin/oshcc", "-c", "-o", tmp_path / "program.o", tmp_path / "program.c")
    assert not done.stderr
    run(prefix / "bin/oshcc", "-o", tmp_path / "program", tmp_path / "program.o")
    run(tmp_path / "program")


def test_a_moved_prefix_works_by_a_link_and_by_its_name_alone(prefix, tmp_path):
    moved = prefix.rename(tmp_path / "moved")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/oshcc").symlink_to(moved / "bin/oshcc")
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    run("sh", "-c", f"oshcc -o '{tmp_path}/program' '{tmp_path}/program.c'", env=environment)
    run(tmp_path / "program")


@pytest.mark.parametrize("option", ["-show", "--showme", "--show"])
def test_the_command_is_shown(prefix, tmp_path, option):
    (tmp_path / "program.c").rename(tmp_path / "it's.c")
    line = run(
        prefix / "bin/oshcc",
        option,
        '-DTEXT="a b"',
        "-o",
        tmp_path / "program",
        tmp_path / "it's.c",
    ).stdout
    assert line.startswith("cc ") and line.count("\n") == 1
    run("sh", "-c", line)
    run(tmp_path / "program")


def test_options_are_shown_apart(prefix, tmp_path):
    compiling = run(prefix / "bin/oshcc", "--showme:compile").stdout.strip()
    linking = run(prefix / "bin/oshcc", "--showme:link").stdout.strip()
    run("sh", "-c", f"cc {compiling} -o '{tmp_path}/program' '{tmp_path}/program.c' {linking}")
    run(tmp_path / "program")


def test_the_compiler_is_chosen(prefix):
    def shown(tool, **variables):
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CC", "CXX", "OSHCC_CC", "OSHCXX_CXX")
        }
        return run(prefix / "bin" / tool, "-show", env={**environment, **variables}).stdout

    assert shown("oshcc", CC="ccache gcc").startswith("ccache gcc '-I")
    assert shown("oshcc", CC="gcc", OSHCC_CC="clang").startswith("clang '-I")
    assert shown("oshc++", CC="gcc").startswith("c++ '-I")
    assert shown("oshc++", CXX="g++", OSHCXX_CXX="clang++").startswith("clang++ '-I")


@pytest.mark.parametrize(
    "tool, variable, own, default",
    [("oshcc", "CC", "OSHCC_CC", "cc"), ("oshc++", "CXX", "OSHCXX_CXX", "c++")],
)
def test_a_wrapper_never_takes_itself_as_its_compiler(
    prefix, tmp_path, tool, variable, own, default
):
    link = tmp_path / "other names" / "compile it"
    link.parent.mkdir()
    link.symlink_to(prefix / "bin" / tool)
    script = tmp_path / "script.sh"
    script.write_text(f'#!/bin/sh\nexec "{prefix}/bin/{tool}" "$@"\n')
    script.chmod(0o755)
    source = tmp_path / ("program.c" if tool == "oshcc" else "program.cc")

    def compile_with(code=0, **variables):
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CC", "CXX", "OSHCC_CC", "OSHCXX_CXX")
        }
        environment["PATH"] = f"{prefix}/bin:{environment['PATH']}"
        return run(
            prefix / "bin" / tool,
            "-o",
            tmp_path / "program",
            source,
            env={**environment, **variables},
            code=code,
        )

    for name in (
        tool,
        f"{tool} -std=gnu11",
        f"env {tool}",
        prefix / "bin" / tool,
        f"/usr/bin/{tool}",
        link,
        script,
    ):
        (tmp_path / "program").unlink(missing_ok=True)
        compile_with(
            **{variable: str(name) if tool == "oshcc" else str(name).replace("gnu11", "gnu++17")}
        )
        run(tmp_path / "program")
    for name in (tool, script):
        errors = compile_with(code=1, **{own: str(name)}).stderr
        assert f"{own}={name}" in errors and default in errors


def test_the_compiler_may_be_a_path_with_a_blank(prefix, tmp_path):
    compiler = tmp_path / "other names" / "cc"
    compiler.parent.mkdir()
    compiler.symlink_to(shutil.which("cc"))
    run(
        prefix / "bin/oshcc",
        "-o",
        tmp_path / "program",
        tmp_path / "program.c",
        env={**os.environ, "OSHCC_CC": str(compiler)},
    )
    run(tmp_path / "program")


def test_a_tree_without_the_library_is_said(prefix):
    for library in prefix.glob("lib*/libshmem.so"):
        library.unlink()
    done = run(prefix / "bin/oshcc", "-show", code=1)
    assert "libshmem.so" in done.stderr


class Machine:
    """A PATH of stubs: launchers of a kind that print how they were called, and a number of processors."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        for name in ("sh", "env", "sed", "sort", "id", "cat", "true"):
            (folder / name).symlink_to(shutil.which(name))
        self.stub("nproc", "echo 4")
        self.stub("id", "echo 1000")

    def stub(self, name, body):
        (self.folder / name).unlink(missing_ok=True)
        (self.folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.folder / name).chmod(0o755)

    def launcher(self, name, kind):
        self.stub(
            name,
            f"case $* in --version) echo '{VERSIONS[kind]}' ;; *) echo \"{name} $*\"; env ;; esac",
        )

    def oshrun(self, *words, code=0, **variables):
        done = subprocess.run(
            ["/bin/sh", TOOLS / "oshrun", *words],
            env={"PATH": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
        return done


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "stubs")


def test_open_mpi_4(machine):
    machine.launcher("mpirun", "openmpi4")
    assert (
        machine.oshrun("--print", "-n", "4", "./a", "-n", "9", "x y").stdout
        == "mpirun -n 4 ./a -n 9 'x y'\n"
    )
    assert (
        machine.oshrun("--print", "-np", "5", "./a").stdout
        == "mpirun --oversubscribe --bind-to none -n 5 ./a\n"
    )
    machine.stub("id", "echo 0")
    assert (
        machine.oshrun("--print", "-n", "4", "./a").stdout
        == "mpirun --allow-run-as-root -n 4 ./a\n"
    )


def test_pes_with_processors_to_spare_are_not_bound_to_one(machine):
    machine.launcher("mpirun", "openmpi4")
    done = machine.oshrun("--print", "-n", "2", "./a")
    assert done.stdout == "mpirun --bind-to none -n 2 ./a\n" and done.stderr == ""
    for given in (["--bind-to", "core"], ["--map-by", "slot:PE=2"]):
        assert (
            machine.oshrun("--print", "-n", "2", *given, "./a").stdout
            == f"mpirun -n 2 {' '.join(given)} ./a\n"
        )
    done = machine.oshrun("--print", "-n", "2", "./a", OMPI_MCA_hwloc_base_binding_policy="core")
    assert done.stdout == "mpirun -n 2 ./a\n"


@pytest.mark.parametrize(
    "name, kind", [("mpirun", "openmpi5"), ("prterun", "prrte"), ("mpiexec", "openmpi5")]
)
def test_launchers_of_prrte(machine, name, kind):
    machine.launcher(name, kind)
    line = machine.oshrun("--print", "-n", "5", "./a").stdout
    assert line == f"{name} --map-by :OVERSUBSCRIBE --bind-to none -n 5 ./a\n"


def test_what_is_added_is_said(machine):
    machine.launcher("mpirun", "openmpi4")
    assert machine.oshrun("-n", "4", "./a").stderr == ""
    errors = machine.oshrun("-n", "5", "./a").stderr
    assert errors == (
        "oshrun: adds --oversubscribe --bind-to none (for 5 PEs on 4 processors, for PEs that share processors)\n"
    )
    assert machine.oshrun("--quiet", "-n", "5", "./a").stderr == ""


def test_what_the_user_says_is_not_added_again(machine):
    machine.launcher("mpirun", "openmpi4")
    line = machine.oshrun(
        "--print", "--bind-to", "core", "--map-by", "slot:OVERSUBSCRIBE", "-n", "5", "./a"
    ).stdout
    assert line == "mpirun -n 5 --bind-to core --map-by slot:OVERSUBSCRIBE ./a\n"
    line = machine.oshrun("--print", "-n", "5", "--hostfile", "h", "--mca", "a", "b", "./a").stdout
    assert line == "mpirun --bind-to none -n 5 --hostfile h --mca a b ./a\n"


def test_settings_go_to_all_pes(machine):
    machine.launcher("mpirun", "openmpi4")
    done = machine.oshrun(
        "-x",
        "MINE=a b",
        "-x",
        "SHMEM_INFO",
        "./a",
        SHMEM_INFO="1",
        TND_LOG="debug",
        FI_PROVIDER="tcp",
        OTHER="no",
    )
    assert (
        done.stdout.splitlines()[0] == "mpirun -x MINE -x SHMEM_INFO -x FI_PROVIDER -x TND_LOG ./a"
    )
    assert "MINE=a b" in done.stdout.splitlines()


def test_srun_in_an_allocation(machine):
    machine.launcher("mpirun", "openmpi4")
    machine.stub(
        "srun",
        "case $* in --mpi=list) echo 'none cray pmix pmix_v4' ;; *) echo srun $*; env ;; esac",
    )
    done = machine.oshrun("-np", "5", "-x", "MINE=1", "./a", SLURM_JOB_ID="7")
    assert done.stdout.splitlines()[0] == "srun --mpi=pmix -n 5 ./a"
    assert "MINE=1" in done.stdout.splitlines()
    machine.stub("srun", "echo 'none pmi2'")
    assert (
        machine.oshrun("--print", "-n", "4", "./a", SLURM_JOB_ID="7").stdout == "mpirun -n 4 ./a\n"
    )


def test_launchers_without_pmix_are_passed_over(machine):
    machine.launcher("mpirun", "hydra")
    machine.launcher("mpiexec", "openmpi4")
    assert machine.oshrun("--print", "-n", "2", "./a").stdout == "mpiexec --bind-to none -n 2 ./a\n"
    done = machine.oshrun("--launcher", "mpirun", "-n", "2", "./a", code=127)
    assert "mpirun" in done.stderr and "PMIx" in done.stderr


def test_without_a_launcher_one_pe_runs(machine):
    done = machine.oshrun("-n", "2", "./a", code=127)
    assert "openmpi-bin" in done.stderr and "PRRTE" in done.stderr
    machine.oshrun("./a", code=127)
    machine.stub("program", "echo ran $1")
    assert machine.oshrun("-n", "1", machine.folder / "program", "well").stdout == "ran well\n"
    assert machine.oshrun("-n", "1", "program", "well").stdout == "ran well\n"


@pytest.mark.parametrize(
    "words", [[], ["-n"], ["-n", "x", "./a"], ["-n", "0", "./a"], ["--mca", "a"]]
)
def test_what_makes_no_sense_is_refused(machine, words):
    machine.launcher("mpirun", "openmpi4")
    assert "oshrun: " in machine.oshrun(*words, code=64).stderr


def test_messages_name_the_file_that_was_started(machine):
    machine.launcher("mpirun", "openmpi4")
    renamed = machine.folder / "tanada-oshrun"
    renamed.symlink_to(TOOLS / "oshrun")
    environment = {"PATH": str(machine.folder), "TND_LOG": "info"}
    added = run(renamed, "-n", "5", "./a", env=environment).stderr
    assert added.startswith("tanada-oshrun: adds ")
    assert "usage: tanada-oshrun [" in run(renamed, "--help", env=environment).stdout
    assert run(renamed, "--version", env=environment).stdout.startswith("tanada-oshrun (Tanada)")


def test_help(machine):
    assert machine.oshrun("--help").stdout.startswith("Start the PEs of an OpenSHMEM program")


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun here: install openmpi-bin")
def test_a_program_under_the_launcher_of_this_machine():
    victim = TOOLS / "launch_victim"
    if not victim.exists():
        pytest.skip("not built: libpmix-dev is not installed")
    done = run(
        TOOLS / "oshrun",
        "-n",
        "5",
        victim,
        "leave",
        env={**os.environ, "TND_PLUGIN_PATH": str(BUILD / "lib")},
    )
    assert done.stdout.count("met") == 5


@pytest.mark.skipif(not (BUILD / "lib/libshmem.so").exists(), reason="libshmem.so is not built")
def test_the_library_itself(tmp_path):
    (tmp_path / "a.c").write_text(
        "#include <shmem.h>\nint main(void) { shmem_init(); shmem_finalize(); return 0; }\n"
    )
    run(TOOLS / "oshcc", "-o", tmp_path / "a", tmp_path / "a.c")
    run(TOOLS / "oshrun", "-n", "2", tmp_path / "a")


@pytest.mark.skipif(
    not shutil.which("mpirun") or not (BUILD / "lib/libtanada_fabric.so").exists(),
    reason="no mpirun, or no libfabric, here",
)
def test_a_job_without_the_o2g_provider_warns_once(tmp_path):
    for library in (BUILD / "lib").glob("*.so*"):
        if "o2g" not in library.name:
            (tmp_path / library.name).symlink_to(library)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "TND_PGAS_NODE": "none"}
    job = run(TOOLS / "oshrun", "--quiet", "-n", "2", TOOLS / "shmem_ring", env=environment)
    assert job.stderr.count("no provider o2g") == 1, job.stderr
