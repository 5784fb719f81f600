#!/usr/bin/env python3
"""The number of system calls of MPI programs for each message: o2g on epoll and on io_uring against
Open MPI 5's own transports over TCP.

usage: syscalls.py [--mpi openmpi5] [--provider FOLDER] [--json FILE]

Each program runs twice under `perf trace -s`, with few messages and with many. The difference of
both ranks' calls, divided by the difference of messages, excludes how they start and end. perf may
count as root, or with kernel.perf_event_paranoid at -1. The number of polling calls depends on how
long a program waits, and so on the machine and its load. The number of sends and receives that
moved bytes does not. Prints a table for Markdown, and JSON to FILE.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import o2g  # noqa: E402
import processes  # noqa: E402
import setups as known  # noqa: E402
from machine import header  # noqa: E402

SEND = {"sendto", "sendmsg", "sendmmsg", "write", "writev"}
RECEIVE = {"recvfrom", "recvmsg", "recvmmsg", "read", "readv"}
LIMIT = 60  # seconds


@dataclasses.dataclass(frozen=True)
class Tracer:
    """A program that counts the calls of another one. Its output has lines with the groups `name`,
    `calls` and `errors`.
    """

    command: str
    line: re.Pattern


PERF = Tracer(
    "perf trace -s",
    re.compile(r"^\s+(?P<name>[a-z]\w+)\s+(?P<calls>\d+)\s+(?P<errors>\d+)\s+[\d.]+\s", re.M),
)
# For kernels without perf. It slows each call down.
STRACE = Tracer(
    "strace -f -c",
    re.compile(
        r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(?P<calls>\d+)\s+(?P<errors>\d*)\s*(?P<name>[a-z]\w+)$", re.M
    ),
)


@dataclasses.dataclass(frozen=True)
class Work:
    """A program with the number of messages as its last word or as the one `behind` it."""

    name: str
    program: str
    words: tuple
    few: int
    many: int
    behind: tuple = ()
    messages_each: int = 1  # for each that is counted

    def command(self, count):
        return [*self.words, str(count), *self.behind]


WORKS = (
    Work("there and back, 8 B", "calls", ("pingpong", "8"), 2000, 32000),
    Work("there and back, 4 KiB", "calls", ("pingpong", "4096"), 2000, 32000),
    Work("there and back, 1 MiB", "calls", ("pingpong", str(1 << 20)), 100, 1100),
    Work("64 B in one direction, 64 under way", "calls", ("stream", "64"), 6400, 134400),
    # Its three kinds: in order, posted before, unexpected.
    Work("64 B, `match` of 10,000", "match", (), 1000, 10000, ("1",), 3),
)


def missing():
    if not shutil.which("perf"):
        return "perf is not there"
    done = subprocess.run(
        ["perf", "trace", "-s", "true"], capture_output=True, text=True, timeout=20
    )
    return (
        None
        if "calls" in done.stderr
        else f"perf trace counts nothing here: {done.stderr.strip()[:200]}"
    )


def counts(setup, program, words, folder, tracer=PERF, limit_s=LIMIT):
    """System calls of both ranks, (all, without effect) by name; or a word with the reason why
    there are no figures.
    """
    with tempfile.TemporaryDirectory(dir=folder) as each:
        wrapper = pathlib.Path(each) / "traced"
        wrapper.write_text(f'#!/bin/sh\nexec {tracer.command} -o {each}/calls.$$ "$@"\n')
        wrapper.chmod(0o755)
        done = processes.run(
            setup.launch(2, wrapper, program, *words), setup.all_environment(), limit_s
        )
        if done.status != "passed":
            print(
                f"bench: {setup.name}: {' '.join(words)} {done.status}: {done.output[-300:]}",
                file=sys.stderr,
            )
            return done.status
        found = collections.defaultdict(lambda: [0, 0])
        for path in pathlib.Path(each).glob("calls.*"):
            for match in tracer.line.finditer(path.read_text()):
                if match["name"] != "total":
                    found[match["name"]][0] += int(match["calls"])
                    found[match["name"]][1] += int(match["errors"] or 0)
        return found


def measure(setup, work, folder, tracer=PERF, limit_s=LIMIT):
    """Calls for each message, or a word with the reason why there are no figures."""
    program = o2g.program_of(setup, work.program, folder)
    few = counts(setup, program, work.command(work.few), folder, tracer, limit_s)
    if isinstance(few, str):
        return few
    many = counts(setup, program, work.command(work.many), folder, tracer, limit_s)
    if isinstance(many, str):
        return many
    messages = (work.many - work.few) * work.messages_each
    each = {name: [(many[name][i] - few[name][i]) / messages for i in (0, 1)] for name in many}
    moved = {
        kind: sum(each.get(name, (0, 0))[0] - each.get(name, (0, 0))[1] for name in names)
        for kind, names in (("sends", SEND), ("receives", RECEIVE))
    }
    return {
        "all": sum(value[0] for value in each.values()),
        **moved,
        "by_name": {
            name: round(value[0], 3) for name, value in sorted(each.items()) if value[0] >= 0.005
        },
    }


def chosen(mpi, provider):
    found = []
    for setup in o2g.chosen([f"{mpi} o2g", f"{mpi} btl", f"{mpi} ofi tcp"], provider):
        if setup.is_ours:
            for engine in ("epoll", "io_uring"):
                environment = {**setup.environment, "TND_STREAM_ENGINE": engine}
                found.append(
                    dataclasses.replace(setup, carrier=f"o2g, {engine}", environment=environment)
                )
        elif "async" not in setup.name:
            found.append(setup)
    return sorted(found, key=lambda each: "o2g" not in each.carrier)


def shown(value):
    if isinstance(value, str):
        return value
    # For a call that does not occur, the noise of starting and ending may give a value below zero.
    each, sends, receives = (max(0.0, value[name]) for name in ("all", "sends", "receives"))
    return f"{each:.2f} ({sends:.2f}, {receives:.2f})"


def row_of(work, values, setups):
    """The best set-up of o2g against the best of the others; "setups" has all of them, or the
    reason for a missing figure.
    """
    calls = {
        name: value if isinstance(value, str) else max(0.0, value["all"])
        for name, value in values.items()
    }
    ours = [
        calls[each.carrier]
        for each in setups
        if each.is_ours and isinstance(calls[each.carrier], float)
    ]
    others = {
        each.carrier: calls[each.carrier]
        for each in setups
        if not each.is_ours and isinstance(calls[each.carrier], float)
    }
    rival = min(others, key=others.get, default=None)
    value = min(ours, default=None)
    ratio = value / others[rival] if rival and value is not None else None
    return {
        "what": work.name,
        "value": value,
        "unit": "system calls a message",
        "rival": rival,
        "rival_value": others.get(rival),
        "ratio": ratio,
        "bar": None,
        "better": "lower",
        "met": None,
        "setups": calls,
        "details": values,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpi", default="openmpi5")
    parser.add_argument("--provider", default=known.PROVIDER, type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    wanted = parser.parse_args()
    reason = missing()
    if reason:
        sys.exit(f"bench: {reason}")
    found = chosen(wanted.mpi, wanted.provider)
    print(
        f"| calls for each message (sends, receives) | {' | '.join(each.carrier for each in found)} |"
    )
    print("| --- " * (len(found) + 1) + "|")
    rows = []
    with tempfile.TemporaryDirectory(prefix="tnd-syscalls-") as folder:
        for work in WORKS:
            values = {each.carrier: measure(each, work, pathlib.Path(folder)) for each in found}
            rows.append(row_of(work, values, found))
            print(
                f"| {work.name} | {' | '.join(shown(value) for value in values.values())} |",
                flush=True,
            )
    if wanted.json:
        result = {
            **header("o2g_syscalls"),
            "load": os.getloadavg()[0],
            "mpi": wanted.mpi,
            "rows": rows,
        }
        wanted.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
