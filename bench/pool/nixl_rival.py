"""One process of NIXL for bench_pool, see python_rival.py: nixl_rival.py owner|client PEER NAME
SIZE

UCX over shared memory and copies between processes. PEER: for a client the owner's output after
"ready". SIZE: bytes.
"""

import base64
import os
import sys

from python_rival import Client, block

os.environ["UCX_TLS"] = "sysv,posix,cma,self"


def agent(name, addr, size):
    from nixl_cu13 import nixl_agent, nixl_agent_config

    made = nixl_agent(name, nixl_agent_config(backends=[]))
    # UCX's error handling excludes shared memory.
    made.create_backend("UCX", {"ucx_error_handling_mode": "none"})
    made.register_memory([(addr, size, 0, "")], "DRAM")
    return made


class AgentClient(Client):
    def __init__(self, owner, name, size_max):
        super().__init__(size_max)
        metadata, addr = owner.rsplit("@", 1)
        self.there = int(addr)
        self.agent = agent(name, self.addr, 2 * size_max)
        self.requests = {}
        self.owner = self.agent.add_remote_agent(base64.b64decode(metadata))

    def move(self, call, here, size):
        """A transfer by a request that is created once and posted repeatedly."""
        if (call, size) not in self.requests:
            local = self.agent.get_xfer_descs([(here, size, 0)], "DRAM")
            remote = self.agent.get_xfer_descs([(self.there, size, 0)], "DRAM")
            self.requests[call, size] = self.agent.initialize_xfer(call, local, remote, self.owner)
        request = self.requests[call, size]
        state = self.agent.transfer(request)
        while state == "PROC":
            state = self.agent.check_xfer_state(request)
        return 0 if state == "DONE" else state

    def put_once(self, _, size):
        return self.move("WRITE", self.addr, size)

    def get_once(self, _, size):
        return self.move("READ", self.addr + self.size_max, size)


def main(role, peer, name, size):
    if role == "client":
        return AgentClient(peer, name, int(size)).serve()
    memory, addr = block(int(size))
    owner = agent(name, addr, int(size))
    print(f"ready {base64.b64encode(owner.get_agent_metadata()).decode()}@{addr}", flush=True)
    sys.stdin.read()
    del owner, memory
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
