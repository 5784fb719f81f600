#!/usr/bin/env python3
"""Commit messages: `module: verb what`, imperative, one change, and a body that gives the reason.

usage: tools/check_commit.py [FILE | RANGE]

FILE is a message, as git passes it to the hook commit-msg. RANGE is one of git, such as
main..HEAD; without it, the commits that the upstream branch does not have, or the last one.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import check_prose
import tree

SUBJECT_MAX = 72
BODY_MAX = 78
SUBJECT = re.compile(r"(?P<modules>[a-z0-9][\w./+-]*(?:, [a-z0-9][\w./+-]*)*): (?P<verb>\S+) \S")
# The verb classifies the change. Another one that does may be added.
VERBS = frozenset(
    "accept add adopt align allow avoid batch bound build cache call cancel cap check clean clear"
    " close compile complete compute convert copy correct count cover declare defer delete describe"
    " detect disable document drop enable encode end enforce escape explain export extend fail find"
    " fix flush fold follow free generate give guard handle hide hold ignore implement improve include"
    " inline install introduce join keep label lay leave limit link list log lower make map mark"
    " measure merge mirror move name number open order pack parse pass pin poll post prefer prevent"
    " print protect publish put raise read record reduce refactor refuse register reject release"
    " remove rename renew renumber reorder repeat replace report require reserve reset resolve restore"
    " restrict retry return reuse revert review rewrite round run save say send separate serialise"
    " serialize set share shorten show shrink simplify skip sort speed split spread stage start state"
    " stop store strip support swap switch take test tighten time trace track trim try turn unify"
    " unmap update upgrade use validate verify wait wake warn widen wrap write".split()
) - {"say"}
TRAILER = re.compile(r"[A-Z][\w-]*: \S|Fixes: ")
SCISSORS = "# ------------------------ >8"
# Absolute paths but those of every system.
PRIVATE = re.compile(r"(?<![\w./:<])/(?!(?:dev|proc|sys|etc|usr|opt)/)\w+/\S*|#\d+\b")


def subject_problems(subject):
    if len(subject) > SUBJECT_MAX:
        yield f"the subject has {len(subject)} columns, at most {SUBJECT_MAX}"
    match = SUBJECT.match(subject)
    if not match:
        yield "the subject is not `module: verb what`"
    elif match["verb"].lower() != match["verb"] or match["verb"] not in VERBS:
        yield f"{match['verb']!r} is not an imperative that tools/check_commit.py lists"
    if ";" in subject:
        yield "the subject joins two changes by a semicolon: make two commits"
    if subject.endswith("."):
        yield "the subject ends with a full stop"


def body_problems(lines):
    body = [line for line in lines if line.strip() and not TRAILER.match(line)]
    if not body:
        yield "there is no body: write what was wrong or missing, and why this way"
    for number, line in enumerate(lines, 3):
        is_quoted = line.startswith(("    ", "\t")) or "://" in line
        if len(line) > BODY_MAX and not is_quoted:
            yield f"line {number} has {len(line)} columns, at most {BODY_MAX}"


def check_message(text):
    """What is wrong with a message."""
    text = text.partition(SCISSORS)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        lines.pop(0)
    if not lines:
        return ["the message is empty"]
    subject, rest = lines[0], lines[1:]
    problems = list(subject_problems(subject))
    if rest and rest[0]:
        problems.append("the second line is not empty")
    problems += body_problems(rest[1:])
    prose = "\n".join(line for line in rest if not line.startswith("    "))
    for _, _, _, what in check_prose.word_findings("", f"{subject.capitalize()}.\n{prose}", 1):
        problems.append(what)
    for match in PRIVATE.finditer("\n".join(lines)):
        problems.append(f"{match[0]!r} means nothing to readers elsewhere")
    return problems


def git(root, *words):
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def default_range(root):
    for base in ("@{upstream}", "origin/HEAD"):
        if git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").returncode == 0:
            return f"{base}..HEAD"
    return "-1"


def check_range(root, commits):
    shown = git(root, "log", "--no-merges", "--format=%h%n%B%x00", commits)
    if shown.returncode != 0:
        return [shown.stderr.strip()]
    problems = []
    for message in shown.stdout.split("\0"):
        commit, _, text = message.strip().partition("\n")
        if commit:
            problems += [f"{commit}: {what}" for what in check_message(text)]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", help="a file with a message, or a range of git")
    what = parser.parse_args().what
    if what and pathlib.Path(what).is_file():
        problems = check_message(pathlib.Path(what).read_text())
    elif git(tree.ROOT, "rev-parse", "--git-dir").returncode != 0:
        problems = []  # an archive has no commits
    else:
        problems = check_range(tree.ROOT, what or default_range(tree.ROOT))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
