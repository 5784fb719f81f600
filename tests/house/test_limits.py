"""The suites behave the same in a terminal, in the background of a script and under nohup, and a
test that hangs is ended.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IGNORED = {"SIGINT": signal.SIGINT, "SIGHUP": signal.SIGHUP, "SIGQUIT": signal.SIGQUIT}
PROGRAM = "import signal; print(*[name for name in ('SIGINT', 'SIGHUP', 'SIGQUIT') if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN])"


def ignoring(*numbers):
    """Signals that a shell ignores in the children that it starts."""

    def ignore():
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return ignore


def run_pytest(folder, text, *options, **more):
    """A test file with this tree's conftest.py."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests/conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "tests/test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        folder,
        folder / "tests",
        *options,
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean, **more)


def test_programs_of_tests_start_with_the_default_signals(tmp_path):
    text = f"""
import signal, subprocess, sys
import pytest
def test_child():
    assert subprocess.run([sys.executable, "-c", {PROGRAM!r}], capture_output=True, text=True).stdout == "\\n"
def test_interrupt():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
def test_hangup_does_not_end_the_tests():
    signal.raise_signal(signal.SIGHUP)
"""
    done = run_pytest(tmp_path, text, preexec_fn=ignoring(*IGNORED.values()))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "body", ["time.sleep(60)", "threading.Event().wait()", "subprocess.run(['sleep', '60'])"]
)
def test_a_test_that_hangs_fails(tmp_path, body):
    text = f"import subprocess, threading, time\nimport pytest\n@pytest.mark.limit(1)\ndef test_it():\n    {body}\ndef test_next(): pass\n"
    done = run_pytest(tmp_path, text)
    assert (
        done.returncode == 1
        and "1 failed, 1 passed" in done.stdout
        and "did not end within 1 s" in done.stdout
    ), done.stdout


@pytest.mark.parametrize("name", IGNORED)
def test_the_script_of_the_tests_gives_programs_the_default_signals(tree_copy, name):
    """tools/test.sh with stubs for the build and ctest."""
    for script in ("build.sh", "venv.sh", "mpi/install.sh"):
        (tree_copy / "tools" / script).write_text("#!/bin/sh\necho true\n")
    stub = tree_copy / "stubs/ctest"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c \"{PROGRAM}\"\n")
    stub.chmod(0o755)
    done = subprocess.run(
        [tree_copy / "tools/test.sh", "asan"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}"},
        preexec_fn=ignoring(IGNORED[name]),
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "", done.stdout + done.stderr


def test_a_folder_whose_tests_share_is_given_to_one_worker(tmp_path):
    """Else the first two files would go to two workers."""
    pytest.importorskip("xdist")
    text = "import os, pathlib\ndef test_it():\n"
    text += "    worker = os.environ['PYTEST_XDIST_WORKER']\n"
    text += "    pathlib.Path(__file__).with_suffix('.worker').write_text(worker)\n"
    folder = tmp_path / "tests/e2e/python"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"test_{name}.py").write_text(text)
    done = run_pytest(tmp_path, text, "-n", "2", "--dist", "loadfile")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({path.read_text() for path in folder.glob("*.worker")}) == 1


SLOW = "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\n@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.slow)])\ndef test_it(n): pass\n"


@pytest.mark.parametrize("setting, outcome", [("1", "3 passed"), ("", "1 passed, 2 skipped")])
def test_slow_tests_run_where_all_are_wanted(tmp_path, monkeypatch, setting, outcome):
    monkeypatch.setenv("TND_TEST_ALL", setting)
    done = run_pytest(tmp_path, SLOW, "-rs", "--strict-markers")
    assert done.returncode == 0 and outcome in done.stdout, done.stdout
    assert ("slow: make test-all runs it" in done.stdout) == (setting == ""), done.stdout


def script_with_stubs(folder, **lines):
    """tools/test.sh in a folder where the programs that it starts are these lines of shell."""
    (folder / "tools/mpi").mkdir(parents=True)
    (folder / "tools/test.sh").write_bytes((ROOT / "tools/test.sh").read_bytes())
    stubs = {
        "tools/setup.sh": "",
        "tools/build.sh": "",
        "tools/venv.sh": lines.get("venv", "echo true"),
        "tools/mpi/install.sh": "",
        "tools/slowest_tests.py": "",
        "stubs/ctest": lines.get("ctest", 'echo "$@"'),
        "stubs/nvidia-smi": lines.get("nvidia_smi", "exit 1"),
    }
    (folder / "stubs").mkdir()
    for name, line in stubs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
    for path in (*folder.glob("tools/**/*.*"), *(folder / "stubs").iterdir()):
        path.chmod(0o755)


def run_script(folder, preset, setting=""):
    return subprocess.run(
        [folder / "tools/test.sh", preset],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "TND_TEST_ALL": setting,
            "PATH": f"{folder / 'stubs'}:{os.environ['PATH']}",
        },
    )


@pytest.mark.parametrize(
    "preset, setting, gpu, words",
    [
        ("dev", "", False, "-LE ^(slow|gpu)$"),
        ("dev", "1", False, "-LE ^(gpu)$"),
        ("dev", "", True, "-LE ^(slow)$"),
        ("dev", "1", True, ""),
        ("asan", "", False, "-LE ^(gpu)$"),
        ("cuda", "", True, "-L gpu"),
    ],
)
def test_the_script_of_the_tests_leaves_slow_ones_out(tmp_path, preset, setting, gpu, words):
    """The stubs record ctest's arguments and whether there is a GPU."""
    script_with_stubs(tmp_path, nvidia_smi="" if gpu else "exit 1")
    done = run_script(tmp_path, preset, setting)
    assert done.returncode == 0, done.stdout + done.stderr
    selected = re.sub(r".* -j \d+ ?", "", done.stdout.splitlines()[0])
    assert selected == words, done.stdout


@pytest.mark.parametrize("ctest, pytest_, status", [(0, 0, 0), (0, 3, 3), (4, 0, 4)])
def test_the_script_of_the_tests_runs_both_kinds_and_fails_by_either(
    tmp_path, ctest, pytest_, status
):
    """CTest's tests and the Python tests run beside each other: each stub waits for the other."""
    meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.05; done; echo {1} has run; exit {3}"
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n" + meet.format(tmp_path, "pytest", "ctest", pytest_) + "\n")
    python.chmod(0o755)
    script_with_stubs(
        tmp_path, venv=f"echo {python}", ctest=meet.format(tmp_path, "ctest", "pytest", ctest)
    )
    done = run_script(tmp_path, "dev")
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["ctest has run", "pytest has run"]


def test_every_test_of_ctest_has_a_limit(build_folder):
    shown = subprocess.run(
        ["ctest", "--test-dir", build_folder, "--show-only=json-v1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stderr
    limits = {
        test["name"]: [each["value"] for each in test["properties"] if each["name"] == "TIMEOUT"]
        for test in json.loads(shown.stdout)["tests"]
    }
    assert (
        limits
        and {name: limit for name, limit in limits.items() if not limit or limit[0] < 600} == {}
    )
