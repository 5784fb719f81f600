"""Programs of many processes under a time limit. All of their processes are ended."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import time
import uuid

MARK = "TND_MPI_RUN"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a run: status is "passed", "failed" or "hangs", output has both streams, and
    left is the number of processes that still ran after patience_s."""

    status: str
    output: str
    seconds: float
    code: int | None = None
    left: int = 0


def marked(mark):
    """Processes whose environment has the mark. Launchers create sessions of their own."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue  # the process has ended, or belongs to another user
    return found


def end_marked(mark, deadline_s=5.0):
    """Kill the marked processes one by one until none is left."""
    end = time.monotonic() + deadline_s
    while (left := marked(mark)) and time.monotonic() < end:
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def still_there(mark, patience_s):
    """Return the number of marked processes that do not end by themselves within patience_s."""
    end = time.monotonic() + patience_s
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return len(left)


def run(command, environment, timeout_s, folder=None, patience_s=0.0):
    """Run a command until it ends or timeout_s has passed, and return its Outcome. Processes that
    remain after patience_s are killed."""
    mark = f"{MARK}={uuid.uuid4().hex}"
    environment = {**environment, MARK: mark.partition("=")[2]}
    start = time.monotonic()
    with subprocess.Popen(
        [str(word) for word in command],
        env=environment,
        cwd=folder,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output = process.communicate(timeout=timeout_s)[0]
            status = "passed" if process.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            end_marked(mark.encode())
            output, status = process.communicate()[0], "hangs"
        except BaseException:
            end_marked(mark.encode())  # for example, after KeyboardInterrupt
            raise
    seconds = time.monotonic() - start
    left = still_there(mark.encode(), patience_s)
    end_marked(mark.encode())
    return Outcome(status, output, seconds, process.returncode, left)
