import os
import pathlib
import shutil
import stat
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


MADE = shutil.ignore_patterns("build", ".git", ".venv*", "__pycache__")


def states(folder):
    """What a change of a file changes: {path below the folder: (type and mode, size, time)}."""
    found = {}
    folders = [""]
    while folders:
        below = folders.pop()
        with os.scandir(os.path.join(folder, below)) as entries:
            for entry in entries:
                path = os.path.join(below, entry.name)
                state = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(state.st_mode)
                found[path] = (
                    (state.st_mode, 0, 0)
                    if is_folder
                    else (state.st_mode, state.st_size, state.st_mtime_ns)
                )
                if is_folder:
                    folders.append(path)
    return found


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def restore(copy, original_states):
    """Undo what a test changed in the copy. Parents come before what they contain."""
    changed = states(copy)
    for path in sorted(changed.keys() - original_states.keys()):
        remove(copy / path)
    for path, state in sorted(original_states.items()):
        if changed.get(path) == state:
            continue
        if stat.S_ISDIR(state[0]):
            (copy / path).mkdir(exist_ok=True)
            os.chmod(copy / path, stat.S_IMODE(state[0]))
        else:
            remove(copy / path)
            shutil.copy2(ROOT / path, copy / path, follow_symlinks=False)


@pytest.fixture(scope="session")
def shared_copy(tmp_path_factory):
    copy = tmp_path_factory.mktemp("house") / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=MADE)
    return copy, states(copy)


@pytest.fixture
def tree_copy(shared_copy):
    """A copy of the tree, to plant bugs in. It is restored after the test.

    The test may not move it.
    """
    copy, original_states = shared_copy
    yield copy
    restore(copy, original_states)


@pytest.fixture
def own_copy(tmp_path):
    """A copy of the tree for one test."""
    return shutil.copytree(ROOT, tmp_path / "tree", symlinks=True, ignore=MADE)


@pytest.fixture(scope="session")
def build_folder():
    """The build under test: $TANADA_BUILD, which `make test` sets."""
    return pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
