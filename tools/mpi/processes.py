"""Programs of many processes under a time limit, of which nothing is left afterwards."""

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
    """How a run ended: status is "passed", "failed" or "hangs"; output is what it printed, both streams; left, how many
    processes of it were still there when the patience with them had ended."""

    status: str
    output: str
    seconds: float
    code: int | None = None
    left: int = 0


def marked(mark):
    """The processes whose environment carries the mark. Launchers put some of theirs into sessions of their own."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended, or is another user's
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
    """How many marked processes do not end by themselves."""
    end = time.monotonic() + patience_s
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return len(left)


def run(command, environment, timeout_s, folder=None, patience_s=0.0):
    """Run a command to its end or to the limit, kill what is left of it after patience_s, and tell how it ended."""
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
            end_marked(mark.encode())  # who runs this is interrupted
            raise
    seconds = time.monotonic() - start
    left = still_there(mark.encode(), patience_s)
    end_marked(mark.encode())
    return Outcome(status, output, seconds, process.returncode, left)
