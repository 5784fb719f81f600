"""One process of a Mooncake Store for bench_pool: what owns the memory, or a client that obeys lines of standard input.

mooncake_rival.py serve MASTER NAME SIZE          mounts SIZE bytes; prints "ready", ends with its standard input
mooncake_rival.py client MASTER NAME SIZE         objects up to SIZE bytes; prints "ready", then an answer in JSON a line:
  put KEY SIZE COUNT | get KEY SIZE COUNT         {"seconds": [...]} of each call; each get is compared with what was put
  many PREFIX SECONDS                             {"rate": ...} objects of 4 KiB committed a second by batch_put_from
  quit
"""

import ctypes
import json
import mmap
import os
import sys
import time

from mooncake.store import MooncakeDistributedStore

BATCH = 64
BATCH_KEYS = 10_000 // BATCH  # different keys, so that the store does not run full


def connect(master, name, segment_size):
    store = MooncakeDistributedStore()
    status = store.setup(name, "P2PHANDSHAKE", segment_size, 16 << 20, "tcp", "", master)
    if status != 0:
        sys.exit(f"setup: {status}")
    return store


class Client:
    def __init__(self, master, name, size_max):
        self.store = connect(master, name, 0)
        self.size_max = size_max
        self.memory = mmap.mmap(-1, 2 * size_max)  # source and target
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        pattern = os.urandom(1 << 20)
        for at in range(0, 2 * size_max, len(pattern)):
            self.memory[at:at + len(pattern)] = pattern[:2 * size_max - at]
        if self.store.register_buffer(self.addr, 2 * size_max) != 0:
            sys.exit("register_buffer")

    def put(self, key, size, count):
        seconds = []
        for _ in range(int(count)):
            start = time.perf_counter()
            status = self.store.upsert_from(key, self.addr, int(size))
            seconds.append(time.perf_counter() - start)
            if status != 0:
                sys.exit(f"upsert_from: {status}")
        return {"seconds": seconds}

    def get(self, key, size, count):
        seconds, size, target = [], int(size), self.size_max
        self.memory[target:target + min(size, 64)] = bytes(min(size, 64))
        for _ in range(int(count)):
            start = time.perf_counter()
            found = self.store.get_into(key, self.addr + target, size)
            seconds.append(time.perf_counter() - start)
            if found != size:
                sys.exit(f"get_into: {found}")
        if self.memory[:64] != self.memory[target:target + 64]:
            sys.exit("get_into: other bytes")
        return {"seconds": seconds}

    def many(self, prefix, duration):
        addrs, sizes = [self.addr] * BATCH, [4096] * BATCH
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(duration):
            keys = [f"{prefix}{done // BATCH % BATCH_KEYS}_{index}" for index in range(BATCH)]
            call = self.store.batch_put_from if done < BATCH * BATCH_KEYS else self.store.batch_upsert_from
            if any(call(keys, addrs, sizes)):
                sys.exit("batch_put_from")
            done += BATCH
        return {"rate": done / (time.perf_counter() - start)}


def main(role, master, name, size):
    if role == "serve":
        store = connect(master, name, int(size))
        print("ready", flush=True)
        sys.stdin.read()
        store.close()
        return
    client = Client(master, name, int(size))
    print("ready", flush=True)
    for line in sys.stdin:
        call, *arguments = line.split()
        if call == "quit":
            break
        print(json.dumps(getattr(client, call)(*arguments)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
