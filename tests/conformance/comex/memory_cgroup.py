"""A memory control group for one command, if this machine permits: its limit and its peak."""

import contextlib
import os
import pathlib
import threading
import time

V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")
LOOK_S = 0.003


class MemoryGroup:
    """A group of version 1 or 2. Reclaimable memory, such as the page cache, is not counted."""

    def __init__(self, folder, limit):
        self.folder = folder
        self.is_v1 = (folder / "memory.limit_in_bytes").exists()
        self.peak = 0
        (folder / ("memory.limit_in_bytes" if self.is_v1 else "memory.max")).write_text(str(limit))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def used(self):
        fields = dict(
            line.split() for line in (self.folder / "memory.stat").read_text().splitlines()
        )
        if self.is_v1:
            kernel = self.folder / "memory.kmem.usage_in_bytes"
            return (
                int(fields["rss"])
                + int(fields["shmem"])
                + (int(kernel.read_text()) if kernel.exists() else 0)
            )
        return int(fields["anon"]) + int(fields["shmem"]) + int(fields.get("kernel", 0))

    def kills(self):
        name = "memory.oom_control" if self.is_v1 else "memory.events"
        fields = dict(line.split() for line in (self.folder / name).read_text().splitlines())
        return int(fields.get("oom_kill", 0))

    def _watch(self):
        while not self._is_over.wait(LOOK_S):
            self.peak = max(self.peak, self.used())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()
        for _ in range(200):  # processes that have just ended remain for a moment
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.05)


def make(limit):
    """None if the system does not permit it."""
    name = f"tanada-test-{os.getpid()}-{time.monotonic_ns()}"
    for parent in (V1, V2):
        folder = parent / name
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / "memory.stat").exists() and "cgroup.procs" in os.listdir(folder):
                with contextlib.suppress(OSError):
                    return MemoryGroup(folder, limit)
            folder.rmdir()
    return None


def wrapper(group, folder):
    """A program that runs another one in the group."""
    path = pathlib.Path(folder) / "in_group.sh"
    path.write_text(f'#!/bin/sh\necho $$ >"{group.folder}/cgroup.procs"\nexec "$@"\n')
    path.chmod(0o755)
    return path
