#!/usr/bin/env python3
"""Checkpoints of PyTorch in the pool, and by PyTorch's own FileSystemWriter in tmpfs and on a disk.

usage: torch_checkpoint.py [--size SIZE] [--ranks N] [--rounds N] [--disk FOLDER] [--json FILE]

Needs the package tanada and PyTorch. The set-ups take turns in each round, in the same ranks. A
row is the median of the rounds. Each load is compared with what was saved. Files are read from the
page cache.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import tanada.torch
from tanada._units import number_of_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

from machine import save  # noqa: E402
from results import print_short, row_of  # noqa: E402

TENSOR_COUNT = 8  # of a rank


class PoolSetup:
    is_ours = True

    def __init__(self, name, url, durable):
        self.name, self.url, self.durable = name, f"{url}/bench/run/step", durable

    def writer(self):
        return tanada.torch.PoolWriter(self.url, durable=self.durable)

    def reader(self):
        return tanada.torch.PoolReader(self.url)


class FileSetup:
    is_ours = False

    def __init__(self, name, folder, durable):
        self.name, self.folder, self.durable = name, folder, durable

    def writer(self):
        return dcp.FileSystemWriter(self.folder, sync_files=self.durable)

    def reader(self):
        return dcp.FileSystemReader(self.folder)


def timed(call):
    """Seconds until all ranks have returned."""
    dist.barrier()
    start = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - start


def run_rank(rank, options, setups, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks
    )
    count = options.size // options.ranks // TENSOR_COUNT // 4
    loaded = {f"{rank}-{index}": torch.zeros(count) for index in range(TENSOR_COUNT)}
    seconds = {}
    for turn in range(options.rounds):
        state = {name: torch.randn(count) for name in loaded}
        for setup in setups:
            saved = timed(lambda: dcp.save(state, storage_writer=setup.writer()))  # noqa: B023
            read = timed(lambda: dcp.load(loaded, storage_reader=setup.reader()))  # noqa: B023
            if not all(torch.equal(loaded[name], state[name]) for name in state):
                sys.exit(f"{setup.name}: other tensors were loaded")
            seconds.setdefault(f"save {setup.name}", []).append(saved)
            seconds.setdefault(f"load {setup.name}", []).append(read)
            if rank == 0:
                print(f"round {turn}: {setup.name}: save {saved:.2f} s, load {read:.2f} s")
    if rank == 0:
        pathlib.Path(f"{store}.json").write_text(json.dumps(seconds))
    dist.destroy_process_group()


def forked(rank, *words):
    process = os.fork()
    if process == 0:
        status = 1
        try:
            run_rank(rank, *words)
            status = 0
        except BaseException as error:
            print(f"rank {rank}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            os._exit(status)
    return process


def measure(options, setups, store):
    ranks = [forked(rank, options, setups, store) for rank in range(options.ranks)]
    if any([os.waitpid(rank, 0)[1] for rank in ranks]):
        sys.exit("bench: a rank failed")
    return json.loads(pathlib.Path(f"{store}.json").read_text())


def rate(size, seconds):
    return float(f"{size / statistics.median(seconds) / 1e9:.4g}")


def rows_of(options, pairs, seconds):
    size = f"{options.size / 2**20:.0f} MiB, {options.ranks} ranks"
    for pair in pairs:
        for action in ("save", "load"):
            values = {
                setup.name: rate(options.size, seconds[f"{action} {setup.name}"]) for setup in pair
            }
            kind = "durable checkpoint" if pair[0].durable else "checkpoint"
            yield row_of(f"{action} a {kind} of {size}", "GB/s", pair, values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=number_of_bytes, default="1GiB")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    pool_size = 5 * options.size // 2  # the earlier checkpoint remains until the commit
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as tmpfs,
        tempfile.TemporaryDirectory(dir=options.disk) as disk,
        tanada.pool.serve(pool_size) as memory,
        tanada.pool.serve(pool_size, "--backing", f"flash:{disk}/log") as flash,
    ):
        pairs = [
            (PoolSetup("pool", memory, False), FileSetup("FileSystemWriter, tmpfs", tmpfs, False)),
            (
                PoolSetup("pool, flash", flash, True),
                FileSetup("FileSystemWriter, disk", f"{disk}/files", True),
            ),
        ]
        setups = [setup for pair in pairs for setup in pair]
        seconds = measure(options, setups, f"{disk}/store")
    rows = list(rows_of(options, pairs, seconds))
    for row in rows:
        print_short(row)
    if options.json:
        save(options.json, "pool_torch", rows)


if __name__ == "__main__":
    main()
