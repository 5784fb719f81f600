"""What the checks of the tree share: which files there are, and how a finding is reported."""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}
SCRIPTS = {".py", ".sh", ".cmake"}


def files(root, *folders, suffixes=None):
    """Regular files under the folders, sorted; links are not followed."""
    found = []
    for folder in folders:
        found += [
            path for path in (root / folder).rglob("*") if path.is_file() and not path.is_symlink()
        ]
    found = [
        path for path in found if not under_link(root, path) and "__pycache__" not in path.parts
    ]
    return sorted(path for path in found if suffixes is None or path.suffix in suffixes)


def under_link(root, path):
    return any(
        (root / parent).is_symlink() for parent in path.relative_to(root).parents if parent.name
    )


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
