#!/usr/bin/env python3
"""Is every source file laid out as clang-format, ruff and shfmt lay it out? --fix does it.

The tools have to be those of tools/requirements.txt: other versions lay out differently.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

import tree

FOLDERS = (
    ".ci",
    "src",
    "include",
    "examples",
    "bench",
    "tests",
    "tools",
    "cmake",
    "python",
)
SHFMT = ["-i", "2", "-ci"]
CHECKS = {
    "clang-format": ["--dry-run", "-Werror"],
    "ruff": ["format", "--check", "--no-cache"],
    "shfmt": ["-l", *SHFMT],
}
FIXES = {
    "clang-format": ["-i"],
    "ruff": ["format", "--no-cache"],
    "shfmt": ["-w", *SHFMT],
}
# What each tool prints of a file that it would change.
REPORTS = {
    "clang-format": re.compile(r"^(.*?):\d+:\d+: error: ", re.MULTILINE),
    "ruff": re.compile(r"^ *--> (.*?):\d+:\d+$", re.MULTILINE),
    "shfmt": re.compile(r"^(.+)$", re.MULTILINE),
}
PASS_COUNT = 3  # clang-format changes some files once more in a second pass


def tool(name):
    """The tool beside this interpreter, or else on PATH."""
    beside = pathlib.Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise SystemExit(f"check_format: {name} is missing; tools/venv.sh installs it")
    return found


def files_of(root, name):
    paths = tree.files(root, *FOLDERS)
    if name == "clang-format":
        return [path for path in paths if path.suffix in tree.CODE]
    if name == "ruff":
        return [path for path in paths if path.suffix == ".py"]
    return [path for path in paths if path.suffix == ".sh" or path.parent.name == ".ci"]


def run(root, name, arguments):
    """What a tool prints about all of its files, and its exit status."""
    paths = [path.relative_to(root).as_posix() for path in files_of(root, name)]
    done = subprocess.run(
        [tool(name), *arguments, *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr, done.returncode


def check(root):
    problems = []
    for name, arguments in CHECKS.items():
        output, code = run(root, name, arguments)
        names = sorted(set(REPORTS[name].findall(output)))
        problems += [f"{path}: {name} lays it out differently: make format" for path in names]
        if code != 0 and not names:
            problems.append(f"{name} failed: {output.strip()[:500]}")
    return problems


def fix(root):
    for _ in range(PASS_COUNT):
        for name, arguments in FIXES.items():
            output, code = run(root, name, arguments)
            if code != 0:
                raise SystemExit(f"check_format: {name} failed: {output.strip()[:500]}")
        if not check(root):
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=tree.ROOT, help="another tree")
    parser.add_argument("--fix", action="store_true", help="lay the files out")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.fix:
        fix(root)
    problems = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
