"""The command line against a pool."""

import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures"))
from pool_daemon import BUILD, Daemon  # noqa: E402, F401

TANADA = BUILD / "bin/tanada"
LIMIT_S = 60


def environment(**changes):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TND_")}
    return {**clean, **changes}


def pool(*words, variables=None, stdin=None, text=True):
    """The result of a finished `tanada pool ...`."""
    return subprocess.run(
        [TANADA, "pool", *map(str, words)],
        env=environment(**(variables or {})),
        capture_output=True,
        text=text,
        input=stdin,
        timeout=LIMIT_S,
    )


def pool_json(*words, code=0, **options):
    done = pool(*words, "--json", **options)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def wait_for(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.002)
