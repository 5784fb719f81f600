"""A memory cgroup that limits the DRAM of a run: version 1 or 2, below the caller's group."""

import os
import pathlib
import time

EMPTY_LIMIT_S = 20
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")


class Refused(Exception):
    """No group can be created on this machine; the message has the reason."""


def own_path(controller):
    """The group of this process in a hierarchy: "memory" for version 1, "" for version 2."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and (controller or not controllers):
            return path.lstrip("/")
    return ""


class MemoryGroup:
    """A context. command(words) runs in the group, as do all its children.

    peak() is the largest number of bytes in use, including the charged page cache.
    """

    def __init__(self, limit, may_swap=False):
        """limit: bytes of memory. may_swap: the kernel may swap the memory out."""
        self.limit, self.may_swap = limit, may_swap
        self.is_v1 = (V1 / "memory.limit_in_bytes").exists()
        name = f"tnd-bench-{os.getpid()}"
        self.folder = (
            V1 / own_path("memory") if self.is_v1 else V2 / own_path("") / ".."
        ).resolve() / name

    def __enter__(self):
        try:
            if not self.is_v1:
                if "memory" not in (self.folder.parent / "cgroup.controllers").read_text().split():
                    raise Refused(f"no memory controller in {self.folder.parent}")
                (self.folder.parent / "cgroup.subtree_control").write_text("+memory")
            self.folder.mkdir()
        except OSError as error:
            raise Refused(f"no memory cgroup: {error}") from None
        try:
            self.set_limits()
        except OSError as error:
            self.folder.rmdir()
            raise Refused(f"no limit of a memory cgroup: {error}") from None
        return self

    def set_limits(self):
        if self.is_v1:
            (self.folder / "memory.limit_in_bytes").write_text(str(self.limit))
            swap = self.folder / "memory.memsw.limit_in_bytes"
            if not self.may_swap and swap.exists():
                swap.write_text(str(self.limit))
        else:
            (self.folder / "memory.max").write_text(str(self.limit))
            swap = self.folder / "memory.swap.max"
            if swap.exists():
                swap.write_text("max" if self.may_swap else "0")

    def __exit__(self, *_):
        """The processes have ended, but the kernel may still clean up. Page cache moves to the parent."""
        end = time.monotonic() + EMPTY_LIMIT_S
        while True:
            try:
                return self.folder.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def command(self, words):
        return [
            "sh",
            "-c",
            'echo $$ >"$1" && shift && exec "$@"',
            "in-group",
            str(self.folder / "cgroup.procs"),
            *map(str, words),
        ]

    def peak(self):
        file = self.folder / ("memory.max_usage_in_bytes" if self.is_v1 else "memory.peak")
        return int(file.read_text()) if file.exists() else None
