#!/usr/bin/env python3
"""OpenSHMEM in GPU memory against its rivals, on one machine with GPUs, alternating in the same
run.

usage: shmemg.py FOLDER [--rows host,kernel,stream,queue,programs] [--programs stencil2d,lbm]
[--exchanges kernel,stream,host] [--pes N]
                 [--nccl PATH] [--size-max BYTES] [--rounds N] [--timeout SECONDS] [--json FILE]

FOLDER was made by tools/gpu/pack_shmemg.sh, or is a build with CUDA; the programs are in its
bin. Rivals whose programs are missing are skipped, and their rows show that. NVSHMEM's are built
if its path is given, and NCCL's if its header exists. NVSHMEM's libraries are searched in
FOLDER/nvshmem and by LD_LIBRARY_PATH; NCCL's is PATH. Prints a table, and JSON to FILE, or after
the table if there is no FILE.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import processes  # noqa: E402
from machine import header  # noqa: E402

STENCIL_SIZES = (256, 1024, 4096, 8192)
LBM_SHAPES = ((64, 64, 16), (128, 128, 64), (256, 256, 64))
# us, GB/s: the rate of cudaMemcpyPeer between two H200s.
HOST_BARS = {
    "put_quiet_peer_8": 4.0,
    "put_local_own_8": 2.2,
    "put_quiet_peer_268435456": 0.95 * 390,
}
STAGED_BARS = {
    "stencil2d": 0.81,
    "lbm": 0.55,
}  # fraction of the staged program's time, where the exchange dominates


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", default="host,kernel,stream,queue,programs")
    parser.add_argument("--programs", default="stencil2d,lbm")
    parser.add_argument("--exchanges", default="kernel,stream,host", help="of the programs")
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--size-max", type=int, default=512 << 20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60, help="of one program, in seconds")
    parser.add_argument(
        "--nccl", default="libnccl.so.2", help="NCCL's library, or a name that the loader finds"
    )
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def gpus():
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout.split("\n")
    names = [name for name in listed if name]
    return f"{len(names)} x {names[0]}" if names else "no GPU"


class Bench:
    """The programs of a folder, and the rows made of their output."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.bin = wanted.folder.resolve() / "bin"
        self.rows = []
        library = wanted.folder.resolve() / "lib"
        paths = [
            str(library),
            str(wanted.folder.resolve() / "nvshmem"),
            os.environ.get("LD_LIBRARY_PATH", ""),
        ]
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
            "TND_PLUGIN_PATH": str(library),
            "TND_CUDA_PLUGIN": str(library / "libtanada_cuda.so"),
            "SHMEM_DEVICE_SYMMETRIC_SIZE": "4G",
            "NVSHMEM_SYMMETRIC_SIZE": "4G",
            "NVSHMEM_DISABLE_NVLS": "1",
            "NVSHMEM_REMOTE_TRANSPORT": "none",
        }

    def has(self, program):
        return (self.bin / program).exists()

    def run(self, command, **more):
        """The program's output; empty if it failed, which is reported."""
        outcome = processes.run(
            [str(word) for word in command], {**self.environment, **more}, self.wanted.timeout
        )
        if outcome.status != "passed":
            print(
                f"bench: {' '.join(map(str, command[-6:]))}: {outcome.status}: {outcome.output.strip()[-400:]}",
                file=sys.stderr,
            )
        return outcome.output if outcome.status == "passed" else ""

    def ours(self, program, *words):
        return self.run(
            [self.bin / "oshrun", "--quiet", "-n", self.wanted.pes, self.bin / program, *words]
        )

    def by_mpi(self, program, *words):
        if not self.has(program):
            return ""
        return self.run(
            [
                "mpirun",
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "none",
                "--mca",
                "btl",
                "self,vader",
                "-n",
                self.wanted.pes,
                self.bin / program,
                *words,
            ]
        )

    def by_file(self, program, *words):
        """A rival's loops, whose processes meet in a folder; returns the output of the first."""
        if not self.has(program):
            return ""
        with tempfile.TemporaryDirectory() as folder:
            base = {
                **self.environment,
                "BENCH_COUNT": str(self.wanted.pes),
                "BENCH_FILE": f"{folder}/id",
                "BENCH_NCCL": self.wanted.nccl,
            }
            command = [str(self.bin / program), *map(str, words)]
            others = [
                subprocess.Popen(
                    ["timeout", "-k", "2", str(self.wanted.timeout), *command],
                    env={**base, "BENCH_RANK": str(rank)},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for rank in range(1, self.wanted.pes)
            ]
            try:
                return self.run(command, **{**base, "BENCH_RANK": "0"})
            finally:
                for other in others:
                    other.wait()

    def add(self, what, value, unit, rival, rival_value, bar=1.0, bar_on="ratio"):
        better = "higher" if unit in ("GB/s", "cells/s") else "lower"
        ratio = float(f"{value / rival_value:.4g}") if value and rival_value else None
        held = value if bar_on == "value" else ratio
        met = (
            None
            if held is None or bar is None
            else held >= bar
            if better == "higher"
            else held <= bar
        )
        self.rows.append(
            {
                "what": what,
                "value": value,
                "unit": unit,
                "rival": rival,
                "rival_value": rival_value,
                "ratio": ratio,
                "bar": bar,
                "bar_on": bar_on,
                "better": better,
                "met": met,
            }
        )

    # ---- rows

    def medians(self, programs, size_max):
        """The values of each program's lines "name value unit", by name and unit; the programs
        alternate.
        """
        values = [{} for _ in programs]
        for _ in range(self.wanted.rounds):
            for found, (run, program) in zip(values, programs):
                for line in run(program, "--size-max", size_max).splitlines():
                    words = line.split()
                    if len(words) == 3 and words[2] in ("ns", "us", "GB/s"):
                        found.setdefault((words[0], words[2]), []).append(float(words[1]))
        return [{key: statistics.median(each) for key, each in found.items()} for found in values]

    def kernel(self):
        programs = (
            (self.ours, "bench_shmemg_kernel_cuda"),
            (self.by_file, "bench_shmemg_kernel_nvshmem"),
        )
        mine, theirs = self.medians(programs, self.wanted.size_max)
        for (name, unit), value in mine.items():
            call, _, size = name.rpartition("_")
            is_one_word = call.endswith(("_least", "_most"))  # number of words of a mean
            self.add(
                f"kernel: {call.replace('_', ' ')}, {size} B",
                value,
                unit,
                "NVSHMEM",
                theirs.get((name, unit)),
                None if is_one_word else 1.0,
            )

    def stream(self):
        programs = (
            (self.ours, "bench_shmemg_stream_cuda"),
            (self.by_file, "bench_shmemg_stream_nvshmem"),
            (self.by_file, "bench_shmemg_stream_nccl"),
        )
        mine, *rivals = self.medians(programs, min(self.wanted.size_max, 256 << 20))
        for (name, unit), value in mine.items():
            call, _, size = name.rpartition("_")
            for rival, theirs, bar in zip(("NVSHMEM", "NCCL"), rivals, (1.0, None)):
                if rival == "NVSHMEM" or theirs:
                    self.add(
                        f"stream: {call.replace('_', ' ')}, {size} B",
                        value,
                        unit,
                        rival,
                        theirs.get((name, unit)),
                        bar,
                    )

    def host(self):
        for line in self.ours("bench_shmemg_host_calls").splitlines():
            words = line.split()
            if len(words) == 3 and words[2] in ("us", "GB/s"):
                call, _, size = words[0].rpartition("_")
                self.add(
                    f"host: {call.replace('_', ' ')}, {size} B",
                    float(words[1]),
                    words[2],
                    None,
                    None,
                    HOST_BARS.get(words[0]),
                    "value",
                )

    def queue(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run([self.bin / "bench_device_queue_cuda", "--json", f"{folder}/queue.json"])
            path = pathlib.Path(folder) / "queue.json"
            if path.exists():
                self.rows.extend(json.loads(path.read_text())["rows"])

    def steps(self, output):
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return lines[0]["step_us"] if lines else None

    def program(self, name, title, words):
        words = [*words, "--rounds", self.wanted.rounds]
        staged = self.steps(self.by_mpi(f"bench_shmemg_{name}_mpi", *words))
        for exchange in self.wanted.exchanges.split(","):
            mine = self.steps(self.ours(f"{name}_cuda", *words, "--exchange", exchange))
            if mine is None:
                continue
            self.add(
                f"{name} {title}, by the {exchange}",
                mine,
                "us",
                "staged MPI",
                staged,
                STAGED_BARS[name],
            )
            if exchange != "host":
                theirs = self.steps(
                    self.by_mpi(f"bench_shmemg_{name}_nvshmem", *words, "--exchange", exchange)
                )
                self.add(f"{name} {title}, by the {exchange}", mine, "us", "NVSHMEM", theirs)

    def programs(self):
        for size in STENCIL_SIZES if "stencil2d" in self.wanted.programs else ():
            self.program(
                "stencil2d", f"{size} x {size}", ["--rows", size, "--columns", size, "--steps", 500]
            )
        for width, height, depth in LBM_SHAPES if "lbm" in self.wanted.programs else ():
            self.program(
                "lbm",
                f"{width} x {height} x {depth}",
                ["--width", width, "--height", height, "--depth", depth, "--steps", 300],
            )


def print_row(row):
    def shown(value):
        return "" if value is None else f"{value:.4g}"

    verdict = "" if row.get("met") is None else "met" if row["met"] else "MISSED"
    print(
        f"{row['what']:52} {shown(row['value']):>10} {row['unit']:6} {row.get('rival') or '':12} {shown(row.get('rival_value')):>10} "
        f"{shown(row.get('ratio')):>7} {verdict}"
    )


def main():
    wanted = options()
    bench = Bench(wanted)
    for part in wanted.rows.split(","):
        before = len(bench.rows)
        getattr(bench, part)()
        for row in bench.rows[before:]:
            print_row(row)
        sys.stdout.flush()
    report = {
        **header("shmemg"),
        "machine": f"{gpus()}, {wanted.pes} PEs, {os.cpu_count()} processors; Linux {platform.release()}",
        "rows": bench.rows,
    }
    text = json.dumps(report, indent=1)
    if wanted.json:
        wanted.json.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
