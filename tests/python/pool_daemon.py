"""A memory pool of its own for tests: a tanada-poold on a free port of loopback, ended by its pid."""

import ctypes
import os
import pathlib
import signal
import subprocess
import time

from package import ROOT

START_LIMIT_S = 30
PR_SET_PDEATHSIG = 1


class Daemon:
    """Started by its `with`. What it says is in the folder's file "log"."""

    def __init__(self, folder, *options):
        self.program = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev")) / "bin/tanada-poold"
        self.folder = folder
        self.options = options
        self.host, self.port = "127.0.0.1", 0  # a free one, which it keeps when it starts again
        self.process = None

    def url(self, namespace, scheme="pool"):
        return f"{scheme}://{self.host}:{self.port}/{namespace}"

    def start(self):
        told = self.folder / "port"
        told.unlink(missing_ok=True)
        # Segments are a namespace's, and each test has one.
        command = [self.program, "--listen", self.host, "--port", str(self.port), "--port-file", told, "--size", "512MiB",
                   "--segment-size", "2MiB", "--no-prefault", *self.options]
        library = ctypes.CDLL(None)
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            preexec_fn=lambda: library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        limit = time.monotonic() + START_LIMIT_S
        while not told.exists():
            assert self.process.poll() is None and time.monotonic() < limit, (self.folder / "log").read_text()
            time.sleep(0.02)
        self.port = int(told.read_text())

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(number)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
