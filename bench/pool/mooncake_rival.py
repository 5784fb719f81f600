"""One process of Mooncake for bench_pool, see python_rival.py: mooncake_rival.py ROLE PEER NAME
SIZE

ROLE: store_owner or store_client, whose PEER is the store's master; engine_owner, whose PEER is
ignored, or engine_client, whose PEER is the owner's output after "ready". NAME: host:port. SIZE:
the bytes of an owner's memory, or of a client's largest object.
"""

import sys
import time

from python_rival import Client, block, expect

BATCH = 64
BATCH_KEYS = 10_000 // BATCH  # different keys, so that the store does not run full


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


class StoreClient(Client):
    def __init__(self, master, name, size_max):
        super().__init__(size_max)
        self.store = connect(master, name, 0)
        expect("register_buffer", self.store.register_buffer(self.addr, 2 * size_max))

    def put_once(self, key, size):
        return self.store.upsert_from(key, self.addr, size)

    def get_once(self, key, size):
        return self.store.get_into(key, self.addr + self.size_max, size)

    def got(self, size):
        return size

    def many(self, prefix, duration):
        addrs, sizes = [self.addr] * BATCH, [4096] * BATCH
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < float(duration):
            keys = [f"{prefix}{done // BATCH % BATCH_KEYS}_{index}" for index in range(BATCH)]
            call = (
                self.store.batch_put_from
                if done < BATCH * BATCH_KEYS
                else self.store.batch_upsert_from
            )
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
        return self.engine.transfer_sync_read(
            self.owner, self.addr + self.size_max, self.there, size
        )


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
        own(role, peer, name, int(size))
    else:
        {"store_client": StoreClient, "engine_client": EngineClient}[role](
            peer, name, int(size)
        ).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
