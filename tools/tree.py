"""What the checks of the tree share: which files there are, and how a finding is reported."""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}
SCRIPTS = {".py", ".sh", ".cmake"}


def files(root, *folders, suffixes=None):
    """Regular files under the folders, sorted; links are not followed."""
    found = []
    for folder in folders:
        if has_link(root, folder):
            continue
        for place, below, names in os.walk(root / folder):
            below[:] = [name for name in below if name != "__pycache__"]
            found += [
                pathlib.Path(place, name)
                for name in names
                if suffixes is None or os.path.splitext(name)[1] in suffixes
            ]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def has_link(root, folder):
    parts = pathlib.PurePath(folder).parts
    return any(root.joinpath(*parts[: i + 1]).is_symlink() for i in range(len(parts)))


def run(description, check):
    """The command line of a check: problems go to stderr, one a line; the exit status is 1 if there are any."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--root", type=pathlib.Path, default=ROOT, help="another tree than this one"
    )
    problems = check(parser.parse_args().root.resolve())
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
