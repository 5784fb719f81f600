#!/usr/bin/env python3
"""Runs Global Arrays programs that are larger than their memory budget.

Compares them, in one run, with the same programs in core, with the kernel's swap and with fio.

usage: out_of_core.py --swap FOLDER [--ours FOLDER] [--budget SIZE] [--dgemm-budget SIZE] [--dgemm-buffer MIB] [--times N] [--ranks N] [--down N]
                      [--slots N] [--rows LIST] [--megabits N] [--sweeps N] [--steps-at-once K,K]
                      [--poold PROGRAM] [--rounds N] [--timeout SECONDS] [--json FILE]

FOLDER is on the flash to measure. Swap objects, fio's file and the kernel's swap file are created
there, and all are removed. The problem is --times the budget; the ranks share --slots processors. A
run that swaps is in a memory cgroup with the budget plus the private memory of --ranks processes;
its peak is reported. Rows: stencil (with temporal blocking), dgemm, kernel (the stencil without
blocking, against the kernel's swap in a cgroup of the same limit), pool (swap objects in a pool in
another network namespace). Bytes moved and their rate are those of the stencil's run. Sizes are
bytes with K, M or G. The row of a measurement that is impossible here has the reason."""

import argparse
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import flash  # noqa: E402
import ports  # noqa: E402
import processes  # noqa: E402
from array_rows import Job, report_of  # noqa: E402
from far_pool import far_pool  # noqa: E402
from machine import header  # noqa: E402
from memory_group import MemoryGroup  # noqa: E402
from memory_group import Refused as NoGroup  # noqa: E402

ROWS = ("stencil", "dgemm", "kernel", "pool")
KERNEL_SWEEPS = 2  # each takes a minute or more with the kernel's swap
BARS = {"stencil": 0.7, "dgemm": 0.9, "kernel": 5.0, "rate": 0.85, "bytes": 1.3}


class Failed(Exception):
    """A run gave no figure; the message has the reason."""


# Lines that mpirun prints for any program that fails.
OF_MPIRUN = (
    "Primary job",
    "a non-zero exit code",
    "mpirun detected",
    "the job to be terminated",
    "Process name:",
    "Exit code:",
)


def last_words(outcome):
    lines = [
        line.strip()
        for line in outcome.output.splitlines()
        if line.strip(" -") and not line.strip().startswith(("{", *OF_MPIRUN))
    ]
    ours = [line for line in lines if " tanada " in line or line.startswith("comex")]
    return (
        f"{outcome.status} after {outcome.seconds:.0f} s: {' | '.join((ours or lines)[-2:])[:300]}"
    )


class Runs:
    """Runs of the two examples with our libraries, in core and swapping."""

    def __init__(self, wanted, folder):
        self.wanted, self.folder = wanted, pathlib.Path(folder)
        self.setup = ports.ours_of(wanted.ours)
        self.programs = {}
        self.url = f"file://{pathlib.Path(wanted.swap).resolve()}"
        if reason := self.setup.missing(with_arrays=True):
            sys.exit(f"bench: {reason}; tools/comex/global_arrays.sh makes it")

    def program(self, job):
        if job.source not in self.programs:
            program = self.folder / job.source
            if ports.build(job.command(self.setup, program, None), program, job.source) is None:
                sys.exit(1)
            self.programs[job.source] = program
        return self.programs[job.source]

    def once(self, job, settings=None, *places):
        """The report of a run. `places`: memory groups and network namespaces to run it in."""
        words = self.setup.launch(self.program(job), self.wanted.ranks, *job.words)
        for place in places:
            words = place.command(words)
        outcome = processes.run(
            words, ports.environment(settings), self.wanted.timeout, self.folder
        )
        report = report_of(outcome)
        if outcome.status != "passed" or report is None:
            raise Failed(last_words(outcome))
        return report

    def limit(self, budget):
        return budget + self.wanted.ranks * self.wanted.overhead

    def swapping(self, job, budget, url, more=None, *places):
        """The program's report, with counters of moved bytes and the peak of used memory."""
        report_file = self.folder / "report.json"
        report_file.unlink(missing_ok=True)
        settings = {
            "TND_COMEX_MEMORY": str(budget),
            "TND_COMEX_RESERVE": "0",
            "TND_COMEX_SWAP": url,
            "TND_COMEX_REPORT": str(report_file),
        } | (more or {})
        if self.wanted.slots:
            settings["TND_COMEX_SLOTS"] = str(self.wanted.slots)
        try:
            with MemoryGroup(self.limit(budget)) as group:
                report = self.once(job, settings, *places, group)
                report["peak_bytes"] = group.peak()
        except NoGroup as reason:
            report = self.once(job, settings, *places)
            report["group"] = f"not limited: {reason}"
        if not report_file.exists():
            raise Failed("no report of moved bytes was written: this build does not swap")
        return report | {"moved": counters_of(json.loads(report_file.read_text()))}

    def by_kernel(self, job, budget):
        """A run without swapping of ours in a cgroup of the same limit; the kernel swaps to the same flash."""
        with (
            flash.SwapFile(self.wanted.swap, 2 * self.wanted.times * budget),
            MemoryGroup(self.limit(budget), may_swap=True) as group,
        ):
            return self.once(job, None, group)


def counters_of(report):
    """Sums over the nodes of the numbers in TND_COMEX_REPORT, whose JSON is an object or a list."""
    nodes = report if isinstance(report, list) else report.get("nodes", [report])
    sums = {}
    for node in nodes:
        for name, value in node.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                sums[name] = sums.get(name, 0) + value
    return sums


def row(what, value, unit, rival, rival_value, bar, better="higher", **more):
    ratio = value / rival_value if value and rival_value else None
    met = (
        None
        if ratio is None or bar is None
        else ratio <= bar
        if better == "lower"
        else ratio >= bar
    )
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "rival": rival,
        "rival_value": rival_value,
        "ratio": ratio and float(f"{ratio:.4g}"),
        "bar": bar,
        "better": better,
        "met": met,
        **more,
    }


def missed(what, unit, rival, reason, bar):
    return {
        "what": what,
        "value": None,
        "unit": unit,
        "rival": rival,
        "rival_value": None,
        "ratio": None,
        "bar": bar,
        "met": None,
        "reason": reason,
    }


def side_of(total, arrays, granule):
    """The number of rows of square arrays of doubles of `total` bytes together."""
    return int((total / (8 * arrays)) ** 0.5) // granule * granule


def stencil_job(wanted, block, sweeps):
    side = side_of(wanted.times * wanted.budget, 1, wanted.ranks)
    down = ("--down", wanted.down) if wanted.down else ()
    return Job(
        f"stencil, k = {block}",
        "ga_stencil9",
        ("--size", side, "--steps", block * sweeps, "--block", block, *down, "--json"),
    )


def dgemm_job(wanted):
    """Blocks of the factors are as large as --dgemm-buffer permits.

    Global Arrays reads one factor once for each column of blocks.
    """
    side = side_of(wanted.times * wanted.dgemm_budget, 3, wanted.ranks)
    return Job("dgemm", "ga_dgemm", ("--size", side, "--buffer", wanted.dgemm_buffer, "--json"))


def best_of(rounds, once):
    """Reports of the fastest run in core and of the fastest that swapped; the results must be equal."""
    pairs = [once() for _ in range(rounds)]
    if len({report["checksum"] for pair in pairs for report in pair}) != 1:
        raise Failed("does not hold: the results differ")
    return [max((pair[i] for pair in pairs), key=lambda report: report["gflops"]) for i in (0, 1)]


def against_in_core(runs, job, budget, bar):
    """The row, and the report of the run that swapped."""
    name = f"{job.what}, {runs.wanted.times} x the budget, against in core"
    try:
        core, away = best_of(
            runs.wanted.rounds, lambda: (runs.once(job), runs.swapping(job, budget, runs.url))
        )
    except Failed as reason:
        return missed(name, "GF/s", "in core", str(reason), bar), None
    return row(name, away["gflops"], "GF/s", "in core", core["gflops"], bar, details=away), away


def moved_rows(runs, job, block, report):
    """Bytes moved compared with the minimum, and their rate compared with fio.

    A run with twice the sweeps gives the bytes that filling, checking and ending move.
    """
    wanted, sweeps = runs.wanted, runs.wanted.sweeps
    moved = report["moved"]
    names = (f"{job.what}: bytes moved by {sweeps} sweeps", f"{job.what}: moved while swapping")
    least = 2 * sweeps * report["ranks"] * report["global_bytes_a_rank"]
    try:
        longer = runs.swapping(stencil_job(wanted, block, 2 * sweeps), wanted.budget, runs.url)[
            "moved"
        ]
        by_sweeps = sum(
            longer.get(name, 0) - moved.get(name, 0) for name in ("bytes_out", "bytes_in")
        )
        yield row(
            names[0],
            by_sweeps / 1e9,
            "GB",
            "each rank's data in and out",
            least / 1e9,
            BARS["bytes"],
            "lower",
            moved=[moved, longer],
        )
    except Failed as reason:
        yield missed(names[0], "GB", "each rank's data in and out", str(reason), BARS["bytes"])
    total = moved.get("bytes_out", 0) + moved.get("bytes_in", 0)
    seconds = moved.get("move_seconds") or report["seconds"]
    try:
        rates = {kind: flash.fio(wanted.swap, kind, "1G", 4) for kind in ("read", "write", "rw")}
    except flash.Refused as reason:
        yield missed(names[1], "GB/s", "fio", str(reason), BARS["rate"])
        return
    # The same mixture of reads and writes, separate or concurrent, whichever is faster.
    in_turn = (
        total
        / (moved.get("bytes_in", 0) / rates["read"] + moved.get("bytes_out", 0) / rates["write"])
        if total
        else 0
    )
    yield row(
        names[1],
        total / seconds / 1e9,
        "GB/s",
        "fio",
        max(in_turn, rates["rw"]) / 1e9,
        BARS["rate"],
        fio={kind: rate / 1e9 for kind, rate in rates.items()},
        seconds=seconds,
    )


def kernel_row(runs, budget):
    wanted = runs.wanted
    job = stencil_job(wanted, 1, min(wanted.sweeps, KERNEL_SWEEPS))
    what = f"{job.what}, {wanted.times} x the budget, against the kernel's swap"
    try:
        ours = runs.swapping(job, budget, runs.url)
    except Failed as reason:
        return missed(what, "GF/s", "kernel swap", str(reason), BARS["kernel"])
    try:
        theirs = runs.by_kernel(job, budget)["gflops"]
        note = None
    except (flash.Refused, NoGroup) as reason:
        return row(
            what,
            ours["gflops"],
            "GF/s",
            "kernel swap",
            None,
            BARS["kernel"],
            reason=str(reason),
            details=ours,
        )
    except Failed as reason:
        # It did not end within --timeout seconds, so it is no faster than this.
        theirs, note = ours["gflops"] * ours["seconds"] / wanted.timeout, f"at most: {reason}"
        if not str(reason).startswith("hangs"):
            return row(
                what,
                ours["gflops"],
                "GF/s",
                "kernel swap",
                None,
                BARS["kernel"],
                reason=str(reason),
                details=ours,
            )
    return row(
        what, ours["gflops"], "GF/s", "kernel swap", theirs, BARS["kernel"], details=ours, note=note
    )


def pool_rows(runs, job, budget, on_flash):
    """The program's rate, and with --megabits the rate at which ranks are moved over the link."""
    what = f"{job.what}: swap in a pool in another network namespace"
    megabits = runs.wanted.megabits
    size = 3 * runs.wanted.times * budget
    try:
        with far_pool(runs.wanted.poold, size, runs.folder, megabits) as pool:
            far = runs.swapping(job, budget, pool.url, pool.settings, pool)
    except (Failed, RuntimeError) as reason:
        yield missed(what, "GF/s", "flash", str(reason), None)
        return
    yield row(
        what, far["gflops"], "GF/s", "flash", on_flash and on_flash["gflops"], None, details=far
    )
    if megabits is None:
        return
    moved = far["moved"]
    rate = (moved["bytes_in"] + moved["bytes_out"]) / moved["move_seconds"]
    yield row(
        f"{job.what}: moved while swapping to the pool",
        rate / 1e9,
        "GB/s",
        f"a link of {megabits} Mbit/s",
        megabits / 8e3,
        BARS["rate"],
    )


def measure(wanted, folder):
    runs = Runs(wanted, folder)
    if "dgemm" in wanted.rows:
        yield against_in_core(runs, dgemm_job(wanted), wanted.dgemm_budget, BARS["dgemm"])[0]
    last = None
    for block in wanted.steps_at_once if "stencil" in wanted.rows else ():
        job = stencil_job(wanted, block, wanted.sweeps)
        found, report = against_in_core(
            runs, job, wanted.budget, BARS["stencil"] if block == 10 else None
        )
        yield found
        if report is not None:
            yield from moved_rows(runs, job, block, report)
            last = (job, report)
    if "kernel" in wanted.rows:
        yield kernel_row(runs, wanted.budget)
    if "pool" in wanted.rows:
        job, report = last or (stencil_job(wanted, 10, wanted.sweeps), None)
        yield from pool_rows(runs, job, wanted.budget, report)


def print_row(found):
    def shown(value):
        return "" if value is None else f"{value:.4g}"

    met = "" if found["met"] is None else "met" if found["met"] else "MISSED"
    print(
        f"{found['what']:68} {shown(found['value']):>8} {found['unit']:5} {shown(found['rival_value']):>8} {found['rival']:12}"
        f" {shown(found['ratio']):>7} {met}{found.get('reason') or ''}",
        flush=True,
    )


def size_of(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1:] in units else int(text)


def numbers(text):
    return [int(each) for each in text.split(",")]


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--swap", required=True, help="a folder on the flash")
    parser.add_argument("--ours", default=str(ROOT / "build/release"))
    parser.add_argument("--poold", default=str(ROOT / "build/release/bin/tanada-poold"))
    parser.add_argument(
        "--budget", type=size_of, default=1 << 30, help="bytes that the stencil may have in DRAM"
    )
    parser.add_argument(
        "--dgemm-budget",
        type=size_of,
        default=640 << 20,
        help="the same of the product; Global Arrays itself takes 36 MiB a rank",
    )
    parser.add_argument(
        "--dgemm-buffer",
        type=int,
        default=112,
        help="MiB that each rank of the product lends Global Arrays",
    )
    parser.add_argument(
        "--overhead",
        type=size_of,
        default=48 << 20,
        help="what a rank takes besides, of the cgroup's limit",
    )
    parser.add_argument("--times", type=int, default=4, help="problem to budget")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument(
        "--down",
        type=int,
        help="of the stencil's ranks, one below another; what is closest to a square",
    )
    parser.add_argument(
        "--slots", type=int, help="ranks that run at once; as many as there are processors"
    )
    parser.add_argument("--megabits", type=int, help="a second, the rate of the link to the pool")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--sweeps", type=int, default=8)
    parser.add_argument(
        "--steps-at-once", type=numbers, default=[10], help="temporal blocking of the stencil"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="of one run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def report(result, rows, path):
    """Print rows as they are measured. Write the result with all so far to a file, or print it at
    the end."""
    for found in rows:
        print_row(found)
        result["rows"].append(found)
        if path:
            path.write_text(json.dumps(result, indent=1) + "\n")
    if not path:
        print(json.dumps(result, indent=1))


def main():
    wanted = options()
    if unknown := set(wanted.rows) - set(ROWS):
        sys.exit(f"bench: no rows are called {', '.join(sorted(unknown))}")
    result = {
        **header("comex_out_of_core"),
        "budget": wanted.budget,
        "dgemm_budget": wanted.dgemm_budget,
        "times": wanted.times,
        "ranks": wanted.ranks,
        "rows": [],
    }
    with tempfile.TemporaryDirectory(prefix="tnd-bench-comex-") as folder:
        report(result, measure(wanted, folder), wanted.json)


if __name__ == "__main__":
    main()
