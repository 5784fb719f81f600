#!/usr/bin/env python3
"""Run a command in its own namespaces, and report the resources that it leaves.

usage: sandbox.py REPORT COMMAND ...

The command has its own network, System V and mount namespaces. Any entry of /dev/shm, shared
segment, socket or port that exists after its end was therefore left by the command. The file REPORT
receives JSON: {"left": [resource, ...]}. The exit status is the command's. Namespaces need root;
`sandbox.py --check` exits with 0 where they are available."""

import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

PATIENCE_S = 3  # for resources that are released shortly after the command ends


def loopback_up():
    with socket.socket() as any_socket:
        request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def unix_sockets():
    """Names of all Unix sockets; abstract ones begin with @."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
    return [words[7] for words in (line.split() for line in lines) if len(words) > 7]


def listeners():
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] in ("0A", "01", "07"):  # LISTEN, ESTABLISHED, CLOSE (UDP)
                found.append(f"{name} port {int(words[1].rpartition(':')[2], 16)}")
    return found


def left():
    """The shared memory and the sockets that exist."""
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
    """The command line that runs the command in the sandbox."""
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
    """The reason why sandboxes cannot run on this machine, or None."""
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
