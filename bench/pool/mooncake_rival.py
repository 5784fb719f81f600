"""One process of Mooncake for bench_pool: what owns the memory, or a client that obeys lines of standard input.

mooncake_rival.py ROLE PEER NAME SIZE             PEER: the store's master, or what an engine's owner printed after "ready"
  store_owner, engine_owner                       owns SIZE bytes; prints "ready ...", ends with its standard input
  store_client, engine_client                     objects up to SIZE bytes; prints "ready", then an answer in JSON a line:
    put KEY SIZE COUNT | get KEY SIZE COUNT       {"seconds": [...]} of each call; each get is compared with what was put
    many PREFIX SECONDS                           {"rate": ...} objects of 4 KiB committed a second by batch_put_from
"""

import ctypes
import json
import mmap
import os
import sys
import time

BATCH = 64
BATCH_KEYS = 10_000 // BATCH  # different keys, so that the store does not run full


def block(size):
    """Memory whose pages are there, and its address."""
    memory, pattern = mmap.mmap(-1, size), os.urandom(1 << 20)
    for at in range(0, size, len(pattern)):
        memory[at:at + len(pattern)] = pattern[:size - at]
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def expect(call, status, wanted=0):
    if status != wanted:
        sys.exit(f"{call}: {status}")


def connect(master, name, segment_size):
    from mooncake.store import MooncakeDistributedStore
    store = MooncakeDistributedStore()
    expect("setup", store.setup(name, "P2PHANDSHAKE", segment_size, 16 << 20, "tcp", "", master))
    return store


def start_engine(name, addr, size):
    from mooncake.engine import TransferEngine
    engine = TransferEngine()
    expect("initialize", engine.initialize(name, "P2PHANDSHAKE", "tcp", ""))
    expect("register_memory", engine.register_memory(addr, size))
    return engine


class Client:
    """The source in the lower half of its memory, the target in the upper one."""

    def __init__(self, size_max):
        self.size_max = size_max
        self.memory, self.addr = block(2 * size_max)

    def times(self, name, call, count, wanted):
        seconds = []
        for _ in range(int(count)):
            start = time.perf_counter()
            status = call()
            seconds.append(time.perf_counter() - start)
            expect(name, status, wanted)
        return {"seconds": seconds}

    def put(self, key, size, count):
        return self.times("put", lambda: self.put_once(key, int(size)), count, 0)

    def get(self, key, size, count):
        size, target = int(size), self.size_max
        self.memory[target:target + size] = bytes(size)
        answer = self.times("get", lambda: self.get_once(key, size), count, self.got(size))
        if self.memory[:size] != self.memory[target:target + size]:
            sys.exit("get: other bytes")
        return answer


class StoreClient(Client):
    def __init__(self, master, name, size_max):
        super().__init__(size_max)
        self.store = connect(master, name, 0)
        expect("register_buffer", self.store.register_buffer(self.addr, 2 * size_max))

    def put_once(self, key, size):
        return self.store.upsert_from(key, self.addr, size)

    def get_once(self, key, size):
        return self.store.get_into(key, self.addr + self.size_max, size)

    @staticmethod
    def got(size):
        return size

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


class EngineClient(Client):
    def __init__(self, owner, name, size_max):
        super().__init__(size_max)
        self.owner, addr = owner.rsplit("@", 1)
        self.there = int(addr)
        self.engine = start_engine(name, self.addr, 2 * size_max)

    def put_once(self, _, size):
        return self.engine.transfer_sync_write(self.owner, self.addr, self.there, size)

    def get_once(self, _, size):
        return self.engine.transfer_sync_read(self.owner, self.addr + self.size_max, self.there, size)

    @staticmethod
    def got(_):
        return 0


def own(role, peer, name, size):
    if role == "store_owner":
        kept = connect(peer, name, size)
        print("ready", flush=True)
    else:
        memory, addr = block(size)
        kept = memory, start_engine(name, addr, size)
        print(f"ready {name.split(':')[0]}:{kept[1].get_rpc_port()}@{addr}", flush=True)
    sys.stdin.read()
    del kept


def main(role, peer, name, size):
    if role.endswith("_owner"):
        return own(role, peer, name, int(size))
    client = {"store_client": StoreClient, "engine_client": EngineClient}[role](peer, name, int(size))
    print("ready", flush=True)
    for line in sys.stdin:
        call, *arguments = line.split()
        print(json.dumps(getattr(client, call)(*arguments)), flush=True)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
