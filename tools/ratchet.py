"""Lists of what is still wrong, as counts by file and rule, that only fall.

A finding is (path, line, rule, text). A list has lines "path rule: count". A check fails where a
file has more findings of a rule than its line allows. Files may be renamed and split: `--lower`
writes the counts of today if no rule has more findings in all than the list allows.
"""

import argparse
import collections
import pathlib
import sys

import tree


def count(findings):
    """{(path, rule): number of findings}"""
    return collections.Counter((path, rule) for path, _, rule, _ in findings)


def read(path):
    """{(path, rule): count} of a list; a missing file is an empty list."""
    listed = collections.Counter()
    for line in path.read_text().splitlines() if path.is_file() else ():
        if line and not line.startswith("#"):
            name, _, number = line.rpartition(": ")
            file, _, rule = name.partition(" ")
            listed[file, rule] = int(number)
    return listed


def write(path, counts):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    lines = [f"{file} {rule}: {number}" for (file, rule), number in sorted(counts.items())]
    path.write_text("\n".join(head + lines) + "\n")


def rises(findings, listed):
    """The findings of each file and rule that has more of them than the list allows."""
    counts = count(findings)
    for path, line, rule, text in findings:
        if counts[path, rule] > listed[path, rule]:
            allowed = f" ({counts[path, rule]}, {listed[path, rule]} are listed)"
            yield f"{path}:{line}: {rule}: {text}{allowed if listed[path, rule] else ''}"


def falls(findings, listed, name):
    """The entries of the list that are too high."""
    counts = count(findings)
    for (path, rule), number in sorted(listed.items()):
        if counts[path, rule] < number:
            yield f"{name}: {path} {rule}: {counts[path, rule]} now: lower it with --lower"


def totals(counts):
    sums = collections.Counter()
    for (_, rule), number in counts.items():
        sums[rule] += number
    return sums


def lower(path, findings):
    """Writes the counts of today. Returns the rules of which there are more than listed."""
    counts, listed = count(findings), read(path)
    now, before = totals(counts), totals(listed)
    risen = [
        f"{path.name}: {rule}: {now[rule]} in all, {before[rule]} are listed"
        for rule in sorted(now)
        if now[rule] > before[rule]
    ]
    if not risen:
        write(path, counts)
    return risen


def run(description, name, find, report=None):
    """The command line of a check with a list; `find(root)` yields findings."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--root", type=pathlib.Path, default=tree.ROOT, help="another tree than this one"
    )
    parser.add_argument("--lower", action="store_true", help=f"write lower counts to {name}")
    parser.add_argument("--strict", action="store_true", help="fail where a count could be lower")
    parser.add_argument("--report", action="store_true", help="print sums")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    findings = list(find(root))
    problems = []
    if arguments.lower:
        problems = lower(root / name, findings)
    listed = read(root / name)
    problems += rises(findings, listed)
    if arguments.strict:
        problems += falls(findings, listed, name)
    if arguments.report:
        for rule, number in sorted(totals(count(findings)).items()):
            print(f"{rule}: {number}")
        for line in report(root) if report else ():
            print(line)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
