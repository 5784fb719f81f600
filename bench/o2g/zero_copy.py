#!/usr/bin/env python3
"""bench_o2g_zero_copy between two network namespaces, over an unthrottled link; for root.

usage: zero_copy.py PROGRAM [OPTION ...]     # build/release/bin/bench_o2g_zero_copy, and its
options
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/mpi"))

import link as links  # noqa: E402


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    reason = links.missing()
    if reason:
        sys.exit(f"bench: {reason}")
    program, *options = sys.argv[1:]
    with links.Link(megabits=None) as link:
        words = [
            pathlib.Path(program).resolve(),
            "--at",
            link.hosts[1],
            "--receiver-in",
            link.names[1],
            *options,
        ]
        return subprocess.run(link.inside(words), timeout=600).returncode


if __name__ == "__main__":
    sys.exit(main())
