"""A tanada-poold of a test, on a port of its own, and the command line against it."""

import json
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
TANADA = BUILD / "bin/tanada"
LIMIT_S = 60


def environment(**changes):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TND_")}
    return {**clean, **changes}


class Daemon:
    def __init__(self, folder, *words, size="512MiB", port=0):
        self.port_file = folder / f"port-{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            [BUILD / "bin/tanada-poold", "--port", str(port), "--port-file", self.port_file, "--size", size, "--segment-size", "4MiB",
             "--no-prefault", *words],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + LIMIT_S
        while not self.port_file.exists():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, "the daemon does not start"
            time.sleep(0.02)
        self.port = int(self.port_file.read_text())

    def url(self, name=""):
        """Of a namespace and an object: "runs/a"."""
        return f"pool://127.0.0.1:{self.port}/{name}"

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate(timeout=LIMIT_S)
            raise


def pool(*words, variables=None, stdin=None, text=True):
    """`tanada pool ...`, done."""
    return subprocess.run([TANADA, "pool", *map(str, words)], env=environment(**(variables or {})), capture_output=True,
                          text=text, input=stdin, timeout=LIMIT_S)


def pool_json(*words, code=0, **options):
    done = pool(*words, "--json", **options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)
