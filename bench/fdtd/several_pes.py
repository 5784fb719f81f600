#!/usr/bin/env python3
"""The cost of snapshots for FDTD on several PEs: the same steps without any, and with one every
tenth step to a pool and to files on a disk.

usage: several_pes.py FOLDER [--pes 1,4] [--size N] [--steps N] [--rounds N] [--scratch FOLDER]
                      [--end END] [--limit SECONDS] [--json FILE]

FOLDER was made by tools/gpu/pack_multi.sh, or is a build; its bin has fdtd, oshrun and
tanada-poold. END ends the program's name: _cuda, or nothing for the host executor. Each program is
one run and N rounds that alternate between steps without snapshots and with them (--compare).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import processes  # noqa: E402
from machine import gpus, header  # noqa: E402

BAR = 1.02  # with snapshots to a pool, relative to the run without
STEPS_A_SNAPSHOT = 10


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pes", default="1,4")
    parser.add_argument("--size", type=int, default=226, help="cells an axis")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--exchange", default="kernel")
    parser.add_argument("--scratch", type=pathlib.Path, help="a folder on the disk of the files")
    parser.add_argument("--end", default="_cuda")
    parser.add_argument("--limit", type=float, default=600, help="of the whole run, in seconds")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Pool:
    """A daemon with memory for all snapshots of a run, and for those that replace them."""

    def __init__(self, wanted, environment, folder):
        snapshot = wanted.size**3 * 4 / 2**20 + 1
        size = int((wanted.steps / STEPS_A_SNAPSHOT + 9) * snapshot + 256)
        port = folder / "port"
        command = [wanted.folder / "bin/tanada-poold", "--port", "0", "--port-file", port]
        self.process = subprocess.Popen(
            [str(word) for word in [*command, "--size", f"{size}MiB"]],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 60
        while not port.exists() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if not port.exists():
            self.close()
            raise RuntimeError("the pool's daemon does not start")
        self.url = f"pool://127.0.0.1:{port.read_text().strip()}/bench/fdtd"

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bench:
    """The rows, and the time that is left for them."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.rows = []
        self.deadline = time.monotonic() + wanted.limit
        library = wanted.folder / "lib"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "TND_PLUGIN_PATH": str(library),
            "TND_CUDA_PLUGIN": str(library / "libtanada_cuda.so"),
        }

    def times(self, pe_count, url, scratch):
        """Seconds without and with snapshots, and of the standstill; empty if it failed."""
        wanted = self.wanted
        output = scratch / f"output-{pe_count}"
        command = [wanted.folder / "bin/oshrun", "--quiet", "-n", pe_count]
        command += [wanted.folder / f"bin/fdtd{wanted.end}", "--lines", "--no-color"]
        command += ["--size", wanted.size, "--steps", wanted.steps, "--output", output]
        command += ["--snapshots", url, "--snapshot-every", STEPS_A_SNAPSHOT]
        command += ["--compare", wanted.rounds]
        if pe_count > 1:
            command += ["--exchange", wanted.exchange]
        limit = self.deadline - time.monotonic()
        if limit < 2:
            print(f"bench: {url}: out of time", file=sys.stderr)
            return None
        outcome = processes.run([str(word) for word in command], self.environment, limit)
        if outcome.status != "passed":
            text = outcome.output.strip()[-400:]
            print(f"bench: {pe_count} PEs, {url}: {outcome.status}: {text}", file=sys.stderr)
            return None
        return json.loads((output / "timings.json").read_text())

    def add(self, what, value, unit, rival, rival_value, bar=None):
        ratio = float(f"{value / rival_value:.4g}") if rival_value else None
        row = {
            "what": what,
            "value": value,
            "unit": unit,
            "rival": rival,
            "rival_value": rival_value,
            "ratio": ratio,
            "bar": bar,
            "better": "lower",
            "met": None if bar is None else ratio <= bar,
        }
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def compare(self, pe_count, target, url, scratch):
        wanted = self.wanted
        timings = self.times(pe_count, url, scratch)
        if timings is None:
            return
        compared = timings["compare"]
        who = "1 PE" if pe_count == 1 else f"{pe_count} PEs"
        what = (
            f"{wanted.steps} steps of {wanted.size}^3 by {who}, a snapshot every "
            f"{STEPS_A_SNAPSHOT}: to {target}"
        )
        bar = BAR if target == "a pool" else None
        figures = (compared["with_seconds"], compared["without_seconds"])
        self.add(what, figures[0], "s", "no snapshots", figures[1], bar)
        lost = 100 * timings["lost_seconds"] / timings["run_seconds"]
        self.add(f"stalls: {what}", lost, "%", None, None)

    def save(self):
        report = {**header("fdtd_pes"), "rows": self.rows}
        report["machine"] = f"{gpus()}; {report['machine']}"
        if self.wanted.json:
            self.wanted.json.write_text(json.dumps(report, indent=1) + "\n")


def main():
    wanted = options()
    wanted.folder = wanted.folder.resolve()
    bench = Bench(wanted)
    with tempfile.TemporaryDirectory(dir=wanted.scratch) as name:
        scratch = pathlib.Path(name)
        files = scratch / "files"
        files.mkdir()
        for pe_count in map(int, reversed(wanted.pes.split(","))):
            pool = Pool(wanted, bench.environment, scratch)
            try:
                bench.compare(pe_count, "a pool", pool.url, scratch)
            finally:
                pool.close()
                (scratch / "port").unlink(missing_ok=True)
            bench.compare(pe_count, "files", f"file://{files}", scratch)
            bench.save()


if __name__ == "__main__":
    main()
