"""Programs from outside: they use an installed Tanada and nothing else, with default settings.

Each test writes a small program or script as a user would who has read one page, builds it with what `make install` put under
the prefix, and runs it. The prefix has a blank in its name.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
STEP_LIMIT_S = 300


def clean_environment(**extra):
    """The environment of a user who has set nothing of Tanada's."""
    names = [
        name for name in os.environ if not name.startswith(("TND_", "SHMEM_", "TANADA_", "LD_"))
    ]
    return {**{name: os.environ[name] for name in names}, **extra}


class Prefix:
    """An installed Tanada."""

    def __init__(self, path):
        self.path = path
        (self.pkgconfig,) = path.glob("lib*/**/pkgconfig")
        self.lib = self.pkgconfig.parent
        self.bin = path / "bin"

    def environment(self, **extra):
        """What a user of this prefix sets: where its programs, libraries and pkg-config files are."""
        path = f"{self.bin}:{os.environ['PATH']}"
        return clean_environment(
            PATH=path, LD_LIBRARY_PATH=str(self.lib), PKG_CONFIG_PATH=str(self.pkgconfig), **extra
        )

    def run(self, *command, timeout=STEP_LIMIT_S, env=None, **options):
        """A finished command with its output as text; the caller looks at the return code."""
        options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options}
        command = [str(part) for part in command]
        return subprocess.run(command, timeout=timeout, env=env or self.environment(), **options)

    def must(self, *command, **options):
        """The standard output of a command that has to succeed."""
        done = self.run(*command, **options)
        assert done.returncode == 0, (
            f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def compile_c(self, folder, text, *flags, package="tanada", compiler="gcc"):
        """A C program built by pkg-config's flags. Returns its path."""
        source = folder / "program.c"
        source.write_text(text)
        # A shell splits pkg-config's quoted output, as it does in users' makefiles.
        line = f'eval "set -- $(pkg-config --cflags --libs {package})"; exec {compiler} "$SOURCE" -o "$TARGET" $FLAGS "$@"'
        environment = self.environment(
            SOURCE=str(source), TARGET=str(folder / "program"), FLAGS=" ".join(flags)
        )
        self.must("sh", "-c", line, env=environment)
        return folder / "program"


@pytest.fixture(scope="session")
def needs_launcher():
    """Skips where nothing starts the PEs of a job."""
    if not any(shutil.which(name) for name in ("mpirun", "prterun", "srun")):
        pytest.skip("no launcher is here: apt-get install openmpi-bin")


@pytest.fixture(scope="session")
def installed():
    """The build under test, installed once for all workers, in a folder with a blank."""
    shared = pathlib.Path(os.environ["TANADA_TEST_OPEN_FOLDER"])
    prefix = shared / "tanada"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = shared / "installed.done"
        if not stamp.exists():
            shutil.rmtree(prefix, ignore_errors=True)
            command = ["cmake", "--install", str(BUILD), "--prefix", str(prefix)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_LIMIT_S)
            assert done.returncode == 0, done.stdout + done.stderr
            stamp.touch()
    return Prefix(prefix)
