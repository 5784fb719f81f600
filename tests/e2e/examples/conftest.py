"""The example programs, run as a user runs them, over every kind of store on this machine."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(
    os.environ.get("TND_BUILD_DIR") or os.environ.get("TANADA_BUILD") or ROOT / "build/dev"
)
LIMIT_S = 120  # a program that hangs is a failure

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import gfarm  # noqa: E402
import pool_objects  # noqa: E402


def has_gfarm():
    return not gfarm.missing_packages() and (BUILD / "lib" / "libtanada_store_gfarm.so").exists()


def has_gpu():
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True).returncode == 0


STORES = ["file", "mem"] + (["gfarm"] if has_gfarm() else [])


class Program:
    """An example by name. On a machine with a GPU, the one built for it, if there is one."""

    def __init__(self, name, environment, folder):
        for_gpu = BUILD / "bin" / f"{name}_cuda"
        self.path = for_gpu if has_gpu() and for_gpu.exists() else BUILD / "bin" / name
        self.environment = environment
        self.folder = folder

    def start(self, *words, before=None):
        return subprocess.Popen(
            [self.path, *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=before,
        )

    def run(self, *words, before=None):
        return subprocess.run(
            [self.path, *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=LIMIT_S,
            preexec_fn=before,
        )

    def pass_run(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, f"{done.args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fail_run(self, *words, before=None):
        """It must exit with 1 and print the reason; returns its output."""
        done = self.run(*words, before=before)
        assert done.returncode == 1, f"{done.args}: {done.returncode}\n{done.stdout}{done.stderr}"
        reasons = [line for line in done.stderr.splitlines() if not line.startswith("device: ")]
        assert reasons
        return "\n".join(reasons)


@pytest.fixture
def tanada(tmp_path):
    """Runs the command line in tmp_path; returns the finished process."""

    def run(*words):
        return subprocess.run(
            [BUILD / "bin/tanada", *map(str, words)],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=LIMIT_S,
        )

    return run


@pytest.fixture
def environment():
    return dict(os.environ)


@pytest.fixture
def program(environment, tmp_path):
    return lambda name: Program(name, environment, tmp_path)


@pytest.fixture(scope="session")
def gfarm_cluster():
    with gfarm.cluster() as up:
        yield up


@pytest.fixture
def pool_daemon(tmp_path):
    (tmp_path / "pool").mkdir()
    with pool_objects.Pool(tmp_path / "pool", size="256MiB") as up:
        yield up


@pytest.fixture(params=STORES)
def store(request, environment, tmp_path):
    """A URL prefix under which a program may write. Gfarm is started once, when the first test
    needs it.
    """
    if request.param == "gfarm":
        environment.update(request.getfixturevalue("gfarm_cluster").environment)
        return "gfarm:///demo"
    if request.param == "mem":
        return "mem://demo"
    (tmp_path / "store").mkdir()
    return f"file://{tmp_path}/store"
