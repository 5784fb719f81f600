#!/usr/bin/env python3
"""NVIDIA's performance tests of NVSHMEM, compiled with Tanada's nvshmem.h and with NVSHMEM itself,
on two GPUs or more of one machine, alternating in the same run.

usage: perftests.py OURS THEIRS ARGUMENTS [--pes N] [--only NAME,...] [--rounds N] [--size-max SIZE]
                    [--timeout SECONDS] [--limit SECONDS] [--json FILE]

OURS and THEIRS are folders with bin, of programs of the same names, and lib, of their libraries.
ARGUMENTS is the folder `perftest` of NVIDIA's source: each program runs with the first line of its
file .args, except that sizes end at --size-max. The programs are compiled with
NVSHMEMTEST_MPI_SUPPORT, and `mpirun` starts both. Of the sizes that a program prints, each fourfold
is a row.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import machine  # noqa: E402
import processes  # noqa: E402

# The output that NVIDIA's tools read: job___scope___size__N___figure value +unit, where + means
# that more is better.
FIGURE = re.compile(
    r"^&&&& PERF (\w+?)___(.+?)___size__(\d+)___(.+?) ([\d.]+(?:e[+-]?\d+)?) ([+-])(\S+)$"
)
# One type and operation where a program would otherwise run all of them.
MORE_WORDS = {
    "reduction_latency": "-d float -o sum",
    "reducescatter_latency": "-d float -o sum",
    "reduction_on_stream": "-d float -o sum",
    "reducescatter_on_stream": "-d float -o sum",
    "shmem_atomic_latency": "-n 200 -w 20",
    "shmem_atomic_bw": "-a inc",
    "shmem_atomic_ping_pong_latency": "-a add",
}
# Programs that run all types or operations in spite of that: what one figure of them stands for.
ALIKE = re.compile(r"-(prod|and|or|xor|min|max)-|^at_(?!int64|uint64)\w+_ping|64-bit|int64-")


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("theirs", type=pathlib.Path)
    parser.add_argument("arguments", type=pathlib.Path)
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--only", default="", help="programs; all that both folders have")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--size-max", default="4M")
    parser.add_argument("--timeout", type=float, default=60, help="of one program, in seconds")
    parser.add_argument("--limit", type=float, default=86400, help="of the whole run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def bytes_of(size):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(size.rstrip("kKmMgG")) * units.get(size[-1].upper(), 1)


def words_of(program, wanted):
    """The words of a program's file, with sizes that end where they shall."""
    found = sorted(wanted.arguments.glob(f"*/*/{program}.args"))
    first = next(iter(found[0].read_text().split("\n")), "") if found else ""
    words = first.split() if first.startswith("-") else []
    words += MORE_WORDS.get(program, "").split()
    if "-e" in words:
        end = words.index("-e") + 1
        if bytes_of(words[end]) > bytes_of(wanted.size_max):
            words[end] = wanted.size_max
    return words


def figures_of(output):
    """{(job, scope, figure, unit, better): {size: value}}"""
    figures = {}
    for line in output.splitlines():
        if found := FIGURE.match(line.strip()):
            job, scope, size, figure, value, sign, unit = found.groups()
            better = "higher" if sign == "+" else "lower"
            figures.setdefault((job, scope, figure, unit, better), {})[int(size)] = float(value)
    return figures


def chosen_sizes(sizes):
    """The smallest, and each that is at least four times the one before."""
    chosen = []
    for size in sorted(sizes):
        if not chosen or size >= 4 * chosen[-1]:
            chosen.append(size)
    return chosen


class Bench:
    def __init__(self, wanted):
        self.wanted = wanted
        self.rows = []
        self.deadline = time.monotonic() + wanted.limit

    def environment(self, folder):
        library = folder.resolve() / "lib"
        return {
            **os.environ,
            "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "TND_PLUGIN_PATH": str(library),
            "TND_CUDA_PLUGIN": str(library / "libtanada_cuda.so"),
            "NVSHMEM_MACHINE_READABLE_OUTPUT": "1",
            "NVSHMEMTEST_USE_MPI_LAUNCHER": "1",
            "NVSHMEM_SYMMETRIC_SIZE": "2G",
            "NVSHMEM_DISABLE_NVLS": "1",
            "NVSHMEM_REMOTE_TRANSPORT": "none",
        }

    def run(self, folder, program, words):
        limit = min(self.wanted.timeout, self.deadline - time.monotonic())
        if limit < 1:
            return ""
        command = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]
        command += ["-n", str(self.wanted.pes), folder.resolve() / "bin" / program, *words]
        outcome = processes.run(list(map(str, command)), self.environment(folder), limit)
        if outcome.status != "passed":
            last = outcome.output.strip()[-400:]
            print(f"bench: {folder.name}: {program}: {outcome.status}: {last}", file=sys.stderr)
        return outcome.output

    def medians(self, program, words):
        """The medians of the rounds, in which the two alternate."""
        rounds = ([], [])
        for _ in range(self.wanted.rounds):
            for folder, values in zip((self.wanted.ours, self.wanted.theirs), rounds):
                values.append(figures_of(self.run(folder, program, words)))
        return [
            {
                key: {size: self.median(values, key, size) for size in values[0][key]}
                for key in values[0]
            }
            for values in rounds
        ]

    @staticmethod
    def median(values, key, size):
        return statistics.median(each[key][size] for each in values if size in each.get(key, {}))

    def program(self, program):
        ours, theirs = self.medians(program, words_of(program, self.wanted))
        for key, values in ours.items():
            job, scope, figure, unit, better = key
            if ALIKE.search(f"{scope}") or ALIKE.search(job.removeprefix("shmem_")):
                continue
            # A program may have several jobs, such as calls on a stream and from the host.
            part = job.replace("_", " ") if job.startswith(("Stream", "sync", "barrier")) else ""
            words = (part, scope.replace("None", ""), figure)
            for size in chosen_sizes(values):
                what = f"{program}: {' '.join(' '.join(words).split())}, {size} B"
                self.add(what, values[size], unit, theirs.get(key, {}).get(size), better)
        for key in theirs.keys() - ours.keys():
            print(f"bench: {program}: {key} has no figure of ours", file=sys.stderr)

    def add(self, what, value, unit, rival_value, better):
        ratio = float(f"{value / rival_value:.4g}") if rival_value else None
        met = None if ratio is None else ratio >= 1 if better == "higher" else ratio <= 1
        row = {"what": what, "value": value, "unit": unit}
        row |= {"rival": "NVSHMEM", "rival_value": rival_value, "ratio": ratio}
        row |= {"bar": 1.0, "bar_on": "ratio", "better": better, "met": met}
        self.rows.append(row)
        verdict = "" if met is None else "met" if met else "MISSED"
        print(f"{what:60} {value:10.4g} {unit:6} {rival_value or 0:10.4g} {ratio or 0:7} {verdict}")

    def save(self):
        if self.wanted.json and self.rows:
            about = machine.header("perftests")
            about["machine"] = f"{machine.gpus()}, {self.wanted.pes} PEs; {about['machine']}"
            self.wanted.json.write_text(json.dumps({**about, "rows": self.rows}, indent=1) + "\n")


def main():
    wanted = options()
    bench = Bench(wanted)
    programs = wanted.only.split(",") if wanted.only else []
    if not programs:
        folders = (wanted.ours / "bin", wanted.theirs / "bin")
        programs = sorted(set.intersection(*({f.name for f in each.iterdir()} for each in folders)))
    for program in programs:
        bench.program(program)
        bench.save()
    if not bench.rows:
        sys.exit("bench: there is no row")


if __name__ == "__main__":
    main()
