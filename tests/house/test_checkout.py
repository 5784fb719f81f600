"""A checkout may lie anywhere: the scripts run in a folder whose name has a blank."""

import os
import shutil
import subprocess

import pytest

LIMIT_S = 600  # on a busy machine


@pytest.fixture
def checkout(own_copy):
    """A copy of the tree in a folder with a blank."""
    target = own_copy.parent / "some where" / "tanada"
    target.parent.mkdir()
    return own_copy.rename(target)


def build(checkout, **variables):
    command = [checkout / "tools/build.sh", "dev"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **variables}
    )


def stub(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_checkout_with_a_blank_configures(checkout):
    done = build(checkout, TARGET="help")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (checkout / "build/dev/build.ninja").is_file()


def test_a_compiler_in_a_folder_with_a_blank_is_one_option(checkout):
    """setup-cuda.sh puts the CUDA compiler into the checkout."""
    nvcc = stub(checkout / ".venv-cuda/nvcc", "exit 0")
    words = checkout / "words"
    stub(checkout / "stubs/cmake", f'printf "%s\\n" "$@" >>"{words}"')
    done = build(checkout, CUDACXX=str(nvcc), PATH=f"{checkout / 'stubs'}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert f"-DCMAKE_CUDA_COMPILER={nvcc}" in words.read_text().splitlines()


def test_only_the_first_build_of_a_folder_compiles_sources_together(checkout):
    """A folder that a developer configured keeps one object for each source, which is faster after
    a change.
    """
    words = checkout / "words"
    stub(checkout / "tools/setup.sh", "exit 0")
    stub(checkout / "stubs/cmake", f'printf "%s\\n" "$@" >>"{words}"')

    def has_unity():
        words.write_text("")
        done = build(checkout, CUDA="0", PATH=f"{checkout / 'stubs'}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
        return "-DTANADA_UNITY=ON" in words.read_text().splitlines()

    assert has_unity()
    (checkout / "build/dev").mkdir()
    (checkout / "build/dev/CMakeCache.txt").touch()
    assert not has_unity()


def test_the_demo_and_the_installation_configure_alike(checkout):
    """With different settings, each of the two would rebuild what the other had built."""
    words = checkout / "words"
    stub(checkout / "tools/setup.sh", "exit 0")
    stub(
        checkout / "stubs/cmake",
        f'echo "$*" >>"{words}"\ncase "$1" in --build) exit 7 ;; esac',
    )
    stub(checkout / "stubs/nvcc", "exit 0")

    def configuration(script):
        words.unlink(missing_ok=True)
        done = subprocess.run(
            [checkout / "tools" / script],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={
                **os.environ,
                "PATH": f"{checkout / 'stubs'}:{os.environ['PATH']}",
                "PREFIX": "/prefix",
            },
        )
        assert done.returncode == 7, done.stdout + done.stderr
        configured, built = words.read_text().splitlines()
        return configured.replace(" -DCMAKE_INSTALL_PREFIX=/prefix", ""), built.split()[-1]

    (demo, built_first), (install, built_then) = (
        configuration(script) for script in ("demo.sh", "install.sh")
    )
    assert demo == install and "TANADA_CUDA=AUTO" in demo
    assert built_first in ("demo", "demo_host") and built_then == "installed"


def test_a_word_for_cuda_that_does_not_exist_ends_the_build(checkout):
    done = build(checkout, CUDA="maybe")
    assert done.returncode == 2 and "CUDA=maybe is none of auto, 1, 0" in done.stderr


def test_no_script_splits_the_name_of_its_folder(checkout):
    """shellcheck's SC2086, where it is installed."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    scripts = [str(path) for path in checkout.glob("tools/**/*.sh")]
    done = subprocess.run(
        ["shellcheck", "--include=SC2086", "--severity=info", *scripts],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout
