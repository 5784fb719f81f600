#!/usr/bin/env python3
"""Runs a command in namespaces of its own and tells what it leaves there: sandbox.py REPORT COMMAND ...

The network, the System V and the mounts are its own, so that every entry of /dev/shm, every shared segment, socket and port
that is there afterwards is the command's. REPORT, a file, gets JSON: {"left": [what, ...]}. Ends with the command's status.
Needs root; `sandbox.py --check` ends with 0 where it can work."""

import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

PATIENCE_S = 3  # for what goes by itself


def loopback_up():
    with socket.socket() as any_socket:
        request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def unix_sockets():
    """Names of all, abstract ones with an @ in front."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    return [words[7] for words in (line.split() for line in lines) if len(words) > 7]


def listeners():
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] in ("0A", "01", "07"):  # listens, is connected, UDP
                found.append(f"{name} port {int(words[1].rpartition(':')[2], 16)}")
    return found


def left():
    """What is there of shared memory and sockets."""
    files = [f"/dev/shm/{path.name}" for path in pathlib.Path("/dev/shm").iterdir()]
    system_v = [
        f"System V segment {line.split()[1]}"
        for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    ]
    sockets = [f"socket {name}" for name in unix_sockets()]
    return files + system_v + sockets + listeners()


def inside(report, command):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    loopback_up()
    done = subprocess.run(command)
    end = time.monotonic() + PATIENCE_S
    while (found := left()) and time.monotonic() < end:
        time.sleep(0.05)
    pathlib.Path(report).write_text(json.dumps({"left": found}))
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def command_for(report, command):
    """The words that run the command here."""
    return [
        "unshare",
        "--mount",
        "--net",
        "--ipc",
        sys.executable,
        __file__,
        "--inside",
        str(report),
        *map(str, command),
    ]


def missing():
    """Why it cannot work here, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--ipc", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm"],
            capture_output=True,
            text=True,
            timeout=20,
        )
    except FileNotFoundError:
        return "unshare is not there"
    return None if done.returncode == 0 else f"namespaces are refused here: {done.stderr.strip()}"


def main(words):
    if words == ["--check"]:
        sys.exit(missing())
    if words[0] == "--inside":
        sys.exit(inside(words[1], words[2:]))
    command = command_for(words[0], words[1:])
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
