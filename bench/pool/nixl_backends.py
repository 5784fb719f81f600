#!/usr/bin/env python3
"""The plugin TANADA of NIXL beside NIXL's own POSIX and UCX, with sizes as nixlbench has them.

usage: nixl_backends.py --plugin FOLDER [--url URL] [--rounds N] [--disk FOLDER] [--json FILE]

Needs the wheel nixl-cu12 or nixl-cu13, and a build with TANADA_NIXL_SOURCE: FOLDER has
libplugin_TANADA.so. Each back end is a process with one agent, which posts one request of several
blocks again and again. The back ends take turns in each round; a row is the median of the rounds.
POSIX has one file in tmpfs, and one on a disk whose pages are cached. UCX has the memory of another
process, without names or a store. Blocks of TANADA are objects, which each write replaces.
"""

import argparse
import base64
import ctypes
import importlib
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

from machine import save  # noqa: E402
from results import print_short, row_of  # noqa: E402

WHEEL = next((name for name in ("nixl_cu13", "nixl_cu12") if importlib.util.find_spec(name)), None)
CASES = [(4096, 1), (4096, 64), (65536, 1), (65536, 64), (1 << 20, 16), (16 << 20, 4)]
TOTAL_MAX = max(size * count for size, count in CASES)
SECONDS = 0.3  # of a back end in a round
LIMIT_S = 120


class Role:
    """A back end in this process."""

    kind = "FILE"

    def __init__(self, backend, parameters):
        api = importlib.import_module(WHEEL + "._api")
        self.bytes = (ctypes.c_char * TOTAL_MAX)()
        self.addr = ctypes.addressof(self.bytes)
        self.agent = api.nixl_agent(self.name(), api.nixl_agent_config(backends=[]))
        self.agent.create_backend(backend, parameters)
        self.peer = self.name()
        self.agent.register_memory([(self.addr, TOTAL_MAX, 0, "")], "DRAM")

    def name(self):
        return f"bench-{os.getpid()}"

    def move(self, request):
        state = self.agent.transfer(request)
        limit = time.monotonic() + LIMIT_S
        while state == "PROC":
            state = self.agent.check_xfer_state(request)
            if time.monotonic() > limit:
                sys.exit("a transfer did not end")
        if state != "DONE":
            sys.exit(f"a transfer ended with {state}")

    def measure(self, call, size, count):
        """Seconds of a request."""
        local = self.agent.get_xfer_descs(
            [(self.addr + index * size, size, 0) for index in range(count)], "DRAM"
        )
        remote = self.agent.get_xfer_descs(self.blocks(size, count), self.kind)
        request = self.agent.initialize_xfer(call, local, remote, self.peer)
        self.move(request)
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < SECONDS:
            self.move(request)
            done += 1
        seconds = (time.perf_counter() - start) / done
        request.release()
        return seconds

    def check(self, size, count, byte):
        """What is written is read."""
        span = size * count
        ctypes.memset(self.addr, byte, span)
        self.measure("WRITE", size, count)
        ctypes.memset(self.addr, 0, span)
        self.measure("READ", size, count)
        if self.bytes[:span] != bytes([byte]) * span:
            sys.exit("other bytes were read than written")


class Posix(Role):
    def __init__(self, path):
        super().__init__("POSIX", {})
        self.file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self.file, TOTAL_MAX)
        self.agent.register_memory([(0, TOTAL_MAX, self.file, "")], "FILE")

    def blocks(self, size, count):
        return [(index * size, size, self.file) for index in range(count)]


class Pool(Role):
    kind = "OBJ"

    def __init__(self, url):
        super().__init__("TANADA", {"url": url})
        self.next_id = 0
        self.known = {}

    def blocks(self, size, count):
        if (size, count) not in self.known:
            first = self.next_id
            self.next_id += count
            self.agent.register_memory(
                [(0, size, first + index, f"{size}/{count}/{index}") for index in range(count)],
                "OBJ",
            )
            self.known[size, count] = [(0, size, first + index) for index in range(count)]
        return self.known[size, count]


class Ucx(Role):
    kind = "DRAM"

    def __init__(self, owner):
        # UCX's error handling excludes shared memory.
        super().__init__("UCX", {"ucx_error_handling_mode": "none"})
        if owner:
            metadata, addr = owner.rsplit("@", 1)
            self.there = int(addr)
            self.peer = self.agent.add_remote_agent(base64.b64decode(metadata))

    def blocks(self, size, count):
        return [(self.there + index * size, size, 0) for index in range(count)]


def serve(kind, word):
    role = {"posix": Posix, "pool": Pool, "ucx": Ucx}[kind](word)
    if kind == "ucx" and not word:
        metadata = base64.b64encode(role.agent.get_agent_metadata()).decode()
        print(f"bench: {metadata}@{role.addr}", flush=True)
        sys.stdin.read()
        return
    print("bench: ready", flush=True)
    for line in sys.stdin:
        call, size, count, byte = line.split()
        if call == "CHECK":
            role.check(int(size), int(count), int(byte))
            print("bench: same", flush=True)
        else:
            print("bench:", role.measure(call, int(size), int(count)), flush=True)


class Setup:
    """A back end in a process of its own."""

    def __init__(self, name, kind, word, plugin=None):
        self.name = name
        self.is_ours = kind == "pool"
        environment = dict(os.environ, UCX_TLS="sysv,posix,cma,self")
        if plugin:
            environment["NIXL_PLUGIN_DIR"] = plugin
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--role", kind, word],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.ready = self.answer()

    def answer(self):
        for line in self.process.stdout:  # NIXL logs there, too
            if line.startswith("bench: "):
                return line.removeprefix("bench: ").strip()
        sys.exit(f"bench: {self.name} ended")

    def ask(self, call, size, count, byte=0):
        print(call, size, count, byte, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


def measure(setups, rounds):
    """{(call, size, count): {set-up: seconds of each round}}"""
    for index, setup in enumerate(setups):
        for size, count in CASES:
            setup.ask("CHECK", size, count, index + 1)
    found = {}
    for _ in range(rounds):
        for size, count in CASES:
            for call in ("WRITE", "READ"):
                for setup in setups:
                    seconds = float(setup.ask(call, size, count))
                    values = found.setdefault((call, size, count), {})
                    values.setdefault(setup.name, []).append(seconds)
    return found


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def rows_of(setups, found):
    for (call, size, count), seconds in found.items():
        blocks = "1 block" if count == 1 else f"{count} blocks"
        what = f"{call.lower()} {blocks} of {size_text(size)}"
        for rivals in (setups[1:-1], setups[-1:]):
            pair = [setups[0], *rivals]
            values = {
                setup.name: float(
                    f"{size * count / statistics.median(seconds[setup.name]) / 1e9:.4g}"
                )
                for setup in pair
            }
            yield row_of(f"{what}, beside {rivals[0].name.split(',')[0]}", "GB/s", pair, values)


def run(options, url):
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as tmpfs,
        tempfile.TemporaryDirectory(dir=options.disk) as disk,
    ):
        owner = Setup("owner", "ucx", "")
        setups = [
            Setup("pool", "pool", url, options.plugin),
            Setup("POSIX, tmpfs", "posix", f"{tmpfs}/blocks"),
            Setup("POSIX, disk", "posix", f"{disk}/blocks"),
            Setup("UCX, memory of a process", "ucx", owner.ready),
        ]
        found = measure(setups, options.rounds)
        for setup in [*setups, owner]:
            setup.end()
    rows = list(rows_of(setups, found))
    for row in rows:
        print_short(row)
    if options.json:
        save(options.json, "pool_nixl", rows)


def main():
    if sys.argv[1:2] == ["--role"]:
        serve(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plugin", required=True, help="folder of libplugin_TANADA.so")
    parser.add_argument("--url", help="of a namespace; none: a pool of its own, which needs tanada")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.url:
        run(options, options.url)
        return
    import tanada

    with tanada.pool.serve("1GiB") as url:
        run(options, f"{url}/nixl")


if __name__ == "__main__":
    main()
