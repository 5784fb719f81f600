#!/usr/bin/env python3
"""OpenSHMEM in GPU memory against its rivals, on one machine with GPUs, alternating in the same
run.

usage: shmemg.py FOLDER [--rows PART,...] [--pes N]
                 [--programs stencil2d,lbm] [--exchanges kernel,stream,host] [--nodes N]
                 [--nccl PATH] [--size-max BYTES] [--rounds N] [--timeout SECONDS]
                 [--limit SECONDS] [--end END] [--small] [--json FILE]

FOLDER was made by tools/gpu/pack_shmemg.sh, or is a build with CUDA; the programs are in its
bin. Rivals whose programs are missing are skipped, and their rows show that. NVSHMEM's are built
if its path is given, and NCCL's if its header exists. NVSHMEM's libraries are searched in
FOLDER/nvshmem and by LD_LIBRARY_PATH; NCCL's is PATH. Prints a table, and JSON to FILE, or after
the table if there is no FILE. FILE is written after each program, too.

Parts: host, kernel, stream, queue and programs, which run by default; pairs (transfers between PEs
that act as nodes), unmapped (calls of kernels to such PEs), gpu_pairs (two PEs on every pair of
GPUs) and scaling (programs from one PE to all).

Without a GPU, pairs take --end "": device heaps are the host executor's, and the rival has memory
of the host in their place. --size-max bounds their sizes.

With --nodes, PEs act as so many nodes of equal size, although they are on one machine: only PEs of
a node share memory. "pairs" has a node for each PE, and its rivals use TCP.
"""

import argparse
import functools
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import processes  # noqa: E402
from machine import gpu_names, gpus, header  # noqa: E402

STENCIL_SIZES = (256, 1024, 4096, 8192)
LBM_SHAPES = ((64, 64, 16), (128, 128, 64), (256, 256, 64))
# us, GB/s: the rate of cudaMemcpyPeer between two H200s.
HOST_BARS = {
    "put_quiet_peer_8": 4.0,
    "put_local_own_8": 2.2,
    "put_quiet_peer_268435456": 0.95 * 390,
}
SIDES = {"h": "host", "d": "GPU"}
CALLERS = {"thread": "a thread", "warp": "a warp's threads", "blocks": "8 blocks' threads"}
UNMAPPED_BAR = 3.0
# Whole grids of strong scaling, and parts of each PE of weak scaling.
STENCIL_WEAK, STENCIL_STRONG = 4096, 8192
LBM_WEAK, LBM_STRONG = (256, 256, 64), (256, 256, 128)
STAGED_BARS = {
    "stencil2d": 0.81,
    "lbm": 0.55,
}  # fraction of the staged program's time, where the exchange dominates


def staged_bar(size, unit):
    """Of the rate or the time between hosts' memory, for a transfer of device memory."""
    if unit == "GB/s":
        return 0.8 if 16 << 10 <= size <= 256 << 10 else None
    return 1.5 if size <= 8 else None


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", default="host,kernel,stream,queue,programs")
    parser.add_argument("--programs", default="stencil2d,lbm")
    parser.add_argument("--exchanges", default="kernel,stream,host", help="of the programs")
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=0, help="0: the nodes that there are")
    parser.add_argument("--size-max", type=int, default=512 << 20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60, help="of one program, in seconds")
    parser.add_argument("--limit", type=float, default=86400, help="of the whole run, in seconds")
    parser.add_argument(
        "--end", default="_cuda", help="of programs' names; empty: those of the host executor"
    )
    parser.add_argument("--small", action="store_true", help="a few sizes, to try everything")
    parser.add_argument(
        "--nccl", default="libnccl.so.2", help="NCCL's library, or a name that the loader finds"
    )
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Bench:
    """The programs of a folder, and the rows made of their output."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.bin = wanted.folder.resolve() / "bin"
        self.rows = []
        self.pes = wanted.pes
        self.deadline = time.monotonic() + wanted.limit
        library = wanted.folder.resolve() / "lib"
        paths = [
            str(library),
            str(wanted.folder.resolve() / "nvshmem"),
            os.environ.get("LD_LIBRARY_PATH", ""),
        ]
        heap = "1G" if wanted.small else "4G"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
            "TND_PLUGIN_PATH": str(library),
            "TND_CUDA_PLUGIN": str(library / "libtanada_cuda.so"),
            "SHMEM_DEVICE_SYMMETRIC_SIZE": heap,
            "NVSHMEM_SYMMETRIC_SIZE": heap,
            "NVSHMEM_DISABLE_NVLS": "1",
            "NVSHMEM_REMOTE_TRANSPORT": "none",
        }

    def has(self, program):
        return (self.bin / program).exists()

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def run(self, command, **more):
        """The program's output. A failure is reported; the lines before it are valid, because
        programs stop at a wrong result.
        """
        limit = min(self.wanted.timeout, self.seconds_left())
        words = [str(word) for word in command]
        if limit < 1:
            print(f"bench: {' '.join(words[-6:])}: out of time", file=sys.stderr)
            return ""
        outcome = processes.run(words, {**self.environment, **more}, limit)
        if outcome.status != "passed":
            print(
                f"bench: {' '.join(words[-6:])}: {outcome.status}: {outcome.output.strip()[-400:]}",
                file=sys.stderr,
            )
        return outcome.output

    def on_nodes(self, command, nodes):
        """The command of a PE, which sets its node's name. A node's PEs see only its own GPUs, so
        that each takes another one, by its number in the job or on its node.
        """
        if not nodes:
            return command
        script = f"TND_PGAS_NODE=$((PMIX_RANK * {nodes} / {self.pes})); export TND_PGAS_NODE\n"
        count = len(gpu_names())
        if count:
            script += "case $TND_PGAS_NODE in\n"
            for node in range(nodes):
                first = node * self.pes // nodes
                own = sorted({(first + i) % count for i in range(self.pes // nodes)})
                visible = ",".join(map(str, own))
                script += f"{node}) CUDA_VISIBLE_DEVICES={visible} ;;\n"
            script += "esac\nexport CUDA_VISIBLE_DEVICES\n"
        return ["sh", "-c", script + 'exec "$0" "$@"', *command]

    def ours(self, program, *words, nodes=None, **more):
        command = self.on_nodes([self.bin / program, *words], nodes or self.wanted.nodes)
        return self.run([self.bin / "oshrun", "--quiet", "-n", self.pes, *command], **more)

    def by_mpi(self, program, *words, is_apart=False):
        """A program of MPI. is_apart: its ranks use TCP, as on several nodes."""
        if not self.has(program):
            return ""
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        if is_apart or self.wanted.nodes:
            options += ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]
            options += ["--mca", "btl_tcp_if_include", "lo"]
        else:
            options += ["--mca", "btl", "self,vader"]
        return self.run(["mpirun", *options, "-n", self.pes, self.bin / program, *words])

    def by_file(self, program, *words, **more):
        """A rival's loops, whose processes meet in a folder; returns the output of the first."""
        if not self.has(program) or self.wanted.nodes:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            base = {
                **self.environment,
                "BENCH_COUNT": str(self.pes),
                "BENCH_FILE": f"{folder}/id",
                "BENCH_NCCL": self.wanted.nccl,
                **more,
            }
            command = [str(self.bin / program), *map(str, words)]
            limit = max(1.0, min(self.wanted.timeout, self.seconds_left()))
            others = [
                subprocess.Popen(
                    ["timeout", "-k", "2", str(limit), *command],
                    env={**base, "BENCH_RANK": str(rank)},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                for rank in range(1, self.pes)
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
        nodes = f", {self.wanted.nodes} nodes" if self.wanted.nodes else ""
        row = {
            "what": what + nodes,
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
        self.rows.append(row)
        print_row(row)

    def report(self):
        nodes = f" acting as {self.wanted.nodes} nodes" if self.wanted.nodes else ""
        processors = f"{os.cpu_count()} processors; Linux {platform.release()}"
        return {
            **header("shmemg"),
            "machine": f"{gpus()}, {self.wanted.pes} PEs{nodes}, {processors}",
            "rows": self.rows,
        }

    def save(self):
        if self.wanted.json:
            self.wanted.json.write_text(json.dumps(self.report(), indent=1) + "\n")

    # ---- rows

    def medians(self, programs, *words):
        """The values of each program's lines "name value unit", by name and unit; the programs
        alternate. Rounds that would not end in time are left out.
        """
        values = [{} for _ in programs]
        for _ in range(self.wanted.rounds):
            begin = time.monotonic()
            for figures, (run, program) in zip(values, programs):
                for line in run(program, *words).splitlines():
                    fields = line.split()
                    if len(fields) == 3 and fields[2] in ("ns", "us", "GB/s"):
                        figures.setdefault((fields[0], fields[2]), []).append(float(fields[1]))
            if 1.2 * (time.monotonic() - begin) > self.seconds_left():
                break
        return [
            {key: statistics.median(figure) for key, figure in figures.items()}
            for figures in values
        ]

    def size_words(self, size_max):
        return ["--size-max", min(size_max, 4 << 20) if self.wanted.small else size_max]

    def kernel(self):
        programs = (
            (self.ours, f"bench_shmemg_kernel{self.wanted.end}"),
            (self.by_file, "bench_shmemg_kernel_nvshmem"),
        )
        words = self.size_words(self.wanted.size_max)
        if self.wanted.small:
            words += ["--rounds", 20, "--blocks", 2, "--threads", 32, "--words", 2]
        mine, theirs = self.medians(programs, *words)
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
            (self.ours, f"bench_shmemg_stream{self.wanted.end}"),
            (self.by_file, "bench_shmemg_stream_nvshmem"),
            (self.by_file, "bench_shmemg_stream_nccl"),
        )
        words = self.size_words(min(self.wanted.size_max, 256 << 20))
        if self.wanted.small:
            words += ["--rounds", 5]
        mine, *rivals = self.medians(programs, *words)
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
        [mine] = self.medians([(self.ours, "bench_shmemg_host_calls")])
        for (name, unit), value in mine.items():
            call, _, size = name.rpartition("_")
            what = f"host: {call.replace('_', ' ')}, {size} B"
            self.add(what, value, unit, None, None, HOST_BARS.get(name), "value")

    def pairs(self):
        def apart(program, *words):
            heap = {"SHMEM_SYMMETRIC_SIZE": "256M"}
            return self.ours(program, *words, nodes=self.pes, **heap)

        def by_tcp(program, *words):
            return self.by_mpi(program, *words, is_apart=True)

        is_host = not self.wanted.end
        sides = {**SIDES, "d": "device"} if is_host else SIDES
        programs = (
            (apart, "bench_shmemg_pairs"),
            (by_tcp, "bench_shmemg_pairs_mpi" + ("_host" if is_host else "")),
        )
        words = ["--size-max", self.wanted.size_max]
        words += ["--rounds", 10] if self.wanted.small else []
        mine, theirs = self.medians(programs, *words)
        for (name, unit), value in mine.items():
            call, pair, size = name.split("_")
            source, target = (sides[side] for side in pair)
            what = f"{call} from {source} to {target} of another node, {size} B"
            if call == "get":
                what = f"get from {source} of another node to {target}, {size} B"
            self.add(what, value, unit, "staged MPI", theirs.get((f"mpi_{name}", unit)))
            if not is_host:
                copied = theirs.get((f"copy_put_{pair}_{size}", unit))
                self.add(what, value, unit, "cudaMemcpy, one process", copied, None)
            if pair != "hh":
                bar = staged_bar(int(size), unit)
                by_hosts = mine.get((f"{call}_hh_{size}", unit))
                self.add(what, value, unit, "host to host", by_hosts, bar)

    def unmapped(self):
        """Calls of kernels that the host carries out, beside the host's own."""
        ours = functools.partial(self.ours, nodes=self.pes)
        words = ["--rounds", 2, "--calls", 64] if self.wanted.small else []
        [mine] = self.medians([(ours, f"bench_shmemg_unmapped{self.wanted.end}")], *words)
        for (name, unit), value in mine.items():
            caller, _, operation = name.partition("_")
            call, _, size = operation.rpartition("_")
            if caller != "host":
                what = f"{call.replace('_', ' ')} by {CALLERS[caller]}, unmapped, {size} B"
                by_host = mine.get((f"host_{operation}", unit))
                self.add(what, value, unit, "by the host", by_host, UNMAPPED_BAR)

    def gpu_pairs(self):
        """Two PEs on every pair of GPUs."""
        self.pes = 2
        for first, second in itertools.combinations(range(max(2, len(gpu_names()))), 2):
            self.gpu_pair(f"GPUs {first} and {second}", f"{first},{second}")
            self.save()
        self.pes = self.wanted.pes

    def gpu_pair(self, title, visible):
        chosen = {"CUDA_VISIBLE_DEVICES": visible} if gpu_names() else {}
        ours = functools.partial(self.ours, **chosen)
        theirs = functools.partial(self.by_file, **chosen)
        size = 8 << 10 if self.wanted.small else 32 << 20
        kernel_words = ["--size-max", size, "--collective-size-max", 0]
        kernel_words += ["--rounds", 20 if self.wanted.small else 500, "--words", 8]
        stream_words = ["--size-max", size, "--rounds", 5 if self.wanted.small else 200]
        kernels = [(ours, f"bench_shmemg_kernel{self.wanted.end}")]
        kernels.append((theirs, "bench_shmemg_kernel_nvshmem"))
        streams = [(ours, f"bench_shmemg_stream{self.wanted.end}")]
        streams.append((theirs, "bench_shmemg_stream_nvshmem"))
        for kind, programs, words in (
            ("host", [(ours, "bench_shmemg_host_calls")], []),
            ("kernel", kernels, kernel_words),
            ("stream", streams, stream_words),
        ):
            mine, *rival = self.medians(programs, *words)
            for (name, unit), value in mine.items():
                call, _, bytes_each = name.rpartition("_")
                is_middle = kind != "host" and 8 < int(bytes_each) < size
                if is_middle or call.endswith(("_least", "_most")):
                    continue
                what = f"{title}: {kind}: {call.replace('_', ' ')}, {bytes_each} B"
                if kind == "host":
                    self.add(what, value, unit, None, None, HOST_BARS.get(name), "value")
                else:
                    self.add(what, value, unit, "NVSHMEM", rival[0].get((name, unit)))

    def queue(self):
        program = self.bin / "bench_device_queue_cuda"
        if not program.exists():
            return
        with tempfile.TemporaryDirectory() as folder:
            self.run([program, "--json", f"{folder}/queue.json"])
            path = pathlib.Path(folder) / "queue.json"
            for row in json.loads(path.read_text())["rows"] if path.exists() else ():
                self.rows.append(row)
                print_row(row)

    def steps(self, output):
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return lines[0]["step_us"] if lines else None

    def program(self, name, title, words):
        words = [*words, "--rounds", self.wanted.rounds]
        if self.wanted.small:
            words += ["--steps", 5]
        staged = self.steps(self.by_mpi(f"bench_shmemg_{name}_mpi", *words))
        for exchange in self.wanted.exchanges.split(","):
            by = ["--exchange", exchange]
            mine = self.steps(self.ours(f"{name}{self.wanted.end}", *words, *by))
            if mine is None:
                continue
            what = f"{name} {title}, by the {exchange}"
            self.add(what, mine, "us", "staged MPI", staged, STAGED_BARS[name])
            if exchange != "host":
                rival = f"bench_shmemg_{name}_nvshmem"
                theirs = "" if self.wanted.nodes else self.by_mpi(rival, *words, *by)
                self.add(what, mine, "us", "NVSHMEM", self.steps(theirs))
        self.save()

    def stencil(self, title, rows, columns):
        words = ["--rows", rows, "--columns", columns]
        self.program("stencil2d", title, [*words, *([] if self.wanted.small else ["--steps", 500])])

    def lbm(self, title, width, height, depth):
        words = ["--width", width, "--height", height, "--depth", depth]
        self.program("lbm", title, [*words, *([] if self.wanted.small else ["--steps", 300])])

    def programs(self):
        for size in STENCIL_SIZES[: 1 if self.wanted.small else None]:
            if "stencil2d" in self.wanted.programs:
                self.stencil(f"{size} x {size}", size, size)
        for shape in LBM_SHAPES[: 1 if self.wanted.small else None]:
            if "lbm" in self.wanted.programs:
                self.lbm(" x ".join(map(str, shape)), *shape)

    def scaling(self):
        """From one PE to all of them, by powers of two: the same part for each PE (weak), and the
        same whole (strong).
        """
        smaller = 64 if self.wanted.small else 1
        weak, strong = STENCIL_WEAK // smaller, STENCIL_STRONG // smaller
        for count in (2**i for i in range(self.wanted.pes.bit_length())):
            self.pes = count
            title = f"{count} PE{'s' if count > 1 else ''}"
            across = 2 ** (count.bit_length() // 2)  # as examples/stencil2d/places.hpp
            if "stencil2d" in self.wanted.programs:
                self.stencil(f"weak, {weak} x {weak} a PE, {title}", weak, weak)
                self.stencil(
                    f"strong, {strong} x {strong} in all, {title}",
                    strong * across // count,
                    strong // across,
                )
            for kind, (width, height, depth) in (("weak", LBM_WEAK), ("strong", LBM_STRONG)):
                if "lbm" not in self.wanted.programs:
                    continue
                width, height = max(8, width // smaller), max(8, height // smaller)
                depth = max(16, depth // smaller)
                shape = f"{width} x {height} x {depth}"
                whole = "a PE" if kind == "weak" else "in all"
                part = depth if kind == "weak" else depth // count
                self.lbm(f"{kind}, {shape} {whole}, {title}", width, height, part)
        self.pes = self.wanted.pes


def print_row(row):
    def shown(value):
        return "" if value is None else f"{value:.4g}"

    verdict = "" if row.get("met") is None else "met" if row["met"] else "MISSED"
    print(
        f"{row['what']:52} {shown(row['value']):>10} {row['unit']:6} {row.get('rival') or '':12} {shown(row.get('rival_value')):>10} "
        f"{shown(row.get('ratio')):>7} {verdict}",
        flush=True,
    )


def main():
    wanted = options()
    bench = Bench(wanted)
    for part in wanted.rows.split(","):
        getattr(bench, part)()
        bench.save()
    if not wanted.json:
        print(json.dumps(bench.report(), indent=1))
    if not bench.rows:
        sys.exit("bench: there is no row")


if __name__ == "__main__":
    main()
