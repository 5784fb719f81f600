"""What a benchmark ran on."""

import os
import pathlib
import platform


def machine():
    """One line: the processor, how many of them, and the system."""
    names = [line.partition(": ")[2] for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} processors; Linux {platform.release()}"
