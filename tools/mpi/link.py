"""Network namespaces of this machine that act as hosts, and a substitute for ssh. Needs root.

To a launcher each namespace is a host, with its own loopback, address and host name. A Link
connects two of them by a wire with a given rate, a Bridge connects any number, and a Cable is a
second wire between two that can be cut."""

import itertools
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

SERIAL = itertools.count()  # numbers the groups of hosts of this process
AGENT = """#!/bin/sh
# usage: agent [option ...] HOST COMMAND ...: what a launcher takes for ssh.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec %(prefix)s${host##*.} unshare --uts sh -c "hostname %(prefix)s${host##*.}; $*"
"""


def missing(programs=("ip", "tc", "unshare")):
    """The reason why namespaces cannot be created on this machine, or None."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    for program in programs:
        if not shutil.which(program):
            return f"{program} is not there"
    name = f"tnd{os.getpid()}probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, timeout=20)
    entered = subprocess.run(
        ["ip", "netns", "exec", name, "true"], capture_output=True, text=True, timeout=20
    )
    subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=20)
    for done in (made, entered):
        if done.returncode != 0:
            return f"network namespaces are refused here: {done.stderr.strip()}"
    return None


def call(*words):
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=20)


def batch(lines, namespace=None, check=True):
    """Run several commands of `ip`, inside a namespace if one is named."""
    inside = ["-n", namespace] if namespace else []
    force = [] if check else ["-force"]
    done = subprocess.run(
        ["ip", *inside, *force, "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"ip in {namespace or 'this namespace'}: {done.stderr.strip()}")


class Hosts:
    """A context manager of namespaces, which removes them at its end.

    `hosts` are their addresses, `names` the names of the namespaces, and `agent` is the program
    that runs a command in one of them. `inside(command)` is the command line that runs a command in
    the first. Derived classes connect them in make()."""

    def __init__(self, count):
        self.prefix = f"tnd{os.getpid()}n{next(SERIAL)}h"
        numbers = range(1, count + 1)
        self.hosts = [f"10.97.0.{number}" for number in numbers]
        self.names = [f"{self.prefix}{number}" for number in numbers]
        self.own = list(self.names)  # the namespaces to remove

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tnd-link-"))
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT % {"prefix": self.prefix})
        self.agent.chmod(0o755)
        try:
            batch([f"netns add {name}" for name in self.own])
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def make(self):
        raise NotImplementedError

    def inside(self, command):
        # As with ssh, a shell on the other side parses the command.
        return [str(self.agent), self.hosts[0], shlex.join(str(word) for word in command)]

    def remove(self):
        batch([f"netns del {name}" for name in self.own], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *_):
        self.remove()


def wire(names, interface, addresses):
    """A pair of connected interfaces, one in each of two namespaces."""
    first, second = names
    call(
        "ip",
        "link",
        "add",
        interface,
        "netns",
        first,
        "type",
        "veth",
        "peer",
        "name",
        interface,
        "netns",
        second,
    )
    for name, address in zip(names, addresses):
        batch(
            [
                f"addr add {address}/24 dev {interface}",
                "link set lo up",
                f"link set {interface} up",
            ],
            name,
        )


class Link(Hosts):
    """Two hosts. `tc tbf` limits each direction to `megabits`; None means no limit."""

    def __init__(self, megabits=1000):
        super().__init__(2)
        self.megabits = megabits

    def make(self):
        wire(self.names, "tnd0", self.hosts)
        for name in self.names if self.megabits is not None else []:
            # A burst of a few packets is small compared to the measured messages. The queue holds
            # 50 ms.
            call(
                "tc",
                "-n",
                name,
                "qdisc",
                "add",
                "dev",
                "tnd0",
                "root",
                "tbf",
                "rate",
                f"{self.megabits}mbit",
                "burst",
                "128kb",
                "latency",
                "50ms",
            )


class Bridge(Hosts):
    """Up to 254 hosts on one bridge, which is in a namespace of its own.

    Each host has permanent neighbour entries for all others. Learned entries would share a table of
    1,024 for all namespaces, which is too small for connections of all hosts to all."""

    def __init__(self, count):
        super().__init__(count)
        self.switch = f"{self.prefix}b"
        self.own.append(self.switch)

    def make(self):
        places = {host: f"02:00:00:00:00:{number:02x}" for number, host in enumerate(self.hosts, 1)}
        lines = ["link add br0 type bridge", "link set br0 up"]
        for i, (name, place) in enumerate(zip(self.names, places.values())):
            lines += [
                f"link add p{i} type veth peer name tnd0 address {place} netns {name}",
                f"link set p{i} master br0 up",
            ]
        batch(lines, self.switch)
        for name, host in zip(self.names, self.hosts):
            batch(
                [
                    f"addr add {host}/24 dev tnd0",
                    "link set lo up",
                    "link set tnd0 up",
                    *(
                        f"neigh add {each} lladdr {place} dev tnd0 nud permanent"
                        for each, place in places.items()
                        if each != host
                    ),
                ],
                name,
            )


class Cable(Bridge):
    """Two hosts on a bridge for launchers, with a second wire, interface CABLE, that can be cut."""

    CABLE = "tnd1"

    def __init__(self):
        super().__init__(2)

    def make(self):
        super().make()
        wire(self.names, self.CABLE, ["10.96.0.1", "10.96.0.2"])

    def cut(self):
        """Set the first host's interface down. The second's then has no carrier."""
        call("ip", "-n", self.names[0], "link", "set", self.CABLE, "down")

    def mend(self):
        call("ip", "-n", self.names[0], "link", "set", self.CABLE, "up")
