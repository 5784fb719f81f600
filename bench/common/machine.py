"""The machine of a benchmark."""

import datetime
import functools
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys


def machine():
    """One line: the processor, how many of them, and the system."""
    names = [
        line.partition(": ")[2]
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} processors; Linux {platform.release()}"


@functools.cache
def gpu_names():
    """The names of the machine's GPUs."""
    if not shutil.which("nvidia-smi"):
        return []
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    ).stdout.split("\n")
    return [name for name in listed if name]


def gpus():
    """How many GPUs, and the name of the first."""
    names = gpu_names()
    return f"{len(names)} x {names[0]}" if names else "no GPU"


def command():
    """The command line of this program, for the JSON of its results. Paths of this machine become FOLDER; --json is left out."""
    words = [pathlib.Path(sys.argv[0]).name]
    skipped = False
    for word in sys.argv[1:]:
        if skipped:
            skipped = False
        elif word == "--json":
            skipped = True
        else:
            words.append("FOLDER" if word.startswith("/") else word)
    return " ".join(words)


def header(bench):
    """The first keys of a benchmark's JSON; its rows come after them."""
    return {
        "bench": bench,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "command": command(),
    }


def save(path, bench, rows):
    """Write the JSON of a benchmark's rows."""
    pathlib.Path(path).write_text(json.dumps({**header(bench), "rows": rows}, indent=1) + "\n")
