"""Two network namespaces with a link between them that carries a given rate, and a stand-in for ssh into them; for root.

Each namespace is a host of its own to a launcher: its own loopback, address and host name. `tc tbf` limits each direction,
unless the rate is None."""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

AGENT = """#!/bin/sh
# usage: agent [option ...] HOST COMMAND ...: what a launcher takes for ssh.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec %(prefix)s${host##*.} unshare --uts sh -c "hostname %(prefix)s${host##*.}; $*"
"""


def missing():
    """Why no such link can be made here, or None."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    for program in ("ip", "tc", "unshare"):
        if not shutil.which(program):
            return f"{program} is not there"
    return None


def call(*words):
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=20)


class Link:
    """A context: `hosts` are two addresses, `agent` the program that runs a command at one of them, `inside(command)` is a
    command run at the first. The namespaces are gone when it ends."""

    def __init__(self, megabits=1000):
        self.megabits = megabits
        self.prefix = f"tnd{os.getpid()}h"
        self.hosts = ["10.97.0.1", "10.97.0.2"]
        self.names = [f"{self.prefix}1", f"{self.prefix}2"]

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tnd-link-"))
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT % {"prefix": self.prefix})
        self.agent.chmod(0o755)
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def make(self):
        for name in self.names:
            call("ip", "netns", "add", name)
        first, second = self.names
        call("ip", "link", "add", "tnd0", "netns", first, "type", "veth", "peer", "name", "tnd0", "netns", second)
        for name, host in zip(self.names, self.hosts):
            call("ip", "-n", name, "addr", "add", f"{host}/24", "dev", "tnd0")
            call("ip", "-n", name, "link", "set", "lo", "up")
            call("ip", "-n", name, "link", "set", "tnd0", "up")
            if self.megabits is None:
                continue
            # The burst is some packets, small beside any message that is timed; the queue holds 50 ms.
            call("tc", "-n", name, "qdisc", "add", "dev", "tnd0", "root", "tbf", "rate", f"{self.megabits}mbit", "burst", "128kb",
                 "latency", "50ms")

    def inside(self, command):
        # As with ssh, a shell reads it at the other side.
        return [str(self.agent), self.hosts[0], shlex.join(str(word) for word in command)]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *_):
        self.remove()

