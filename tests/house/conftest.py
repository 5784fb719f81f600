import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture
def tree_copy(tmp_path):
    """A copy of what git would commit, to plant bugs in."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, tmp_path / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target, follow_symlinks=False)
    return tmp_path


@pytest.fixture(scope="session")
def build_folder():
    """The build under test: $TANADA_BUILD, which `make test` sets."""
    return pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
