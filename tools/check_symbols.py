#!/usr/bin/env python3
"""Does a libtanada.so export exactly what cmake/exported.txt lists? usage: check_symbols.py [--list FILE] LIBRARY"""

import argparse
import pathlib
import subprocess
import sys

import tree


def read_list(path):
    return {line for line in path.read_text().splitlines() if line and not line.startswith("#")}


def exported(library):
    """Names the library defines for others, without their version; the version's own name is no symbol."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split()[1:] for line in lines.splitlines()]
    return {name.split("@")[0] for kind, name in symbols if kind != "A"}


def check(library, listed):
    found = exported(library)
    return [
        f"{library}: {name} is exported but not in cmake/exported.txt"
        for name in sorted(found - listed)
    ] + [
        f"{library}: {name} is in cmake/exported.txt but not exported"
        for name in sorted(listed - found)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=pathlib.Path, default=tree.ROOT / "cmake/exported.txt")
    parser.add_argument("library", type=pathlib.Path)
    arguments = parser.parse_args()
    problems = check(arguments.library, read_list(arguments.list))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
