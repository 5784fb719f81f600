#!/usr/bin/env python3
"""What one gread adds to a kernel: registers, spills, bytes of code and the compiler's time, as
compiled by nvcc for sm_90; no GPU is needed. Above 128 registers, blocks of 512 threads do not run.

usage: cost.py [--json FILE]. Prints a table, and JSON as the other benchmarks do.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/common"))

from machine import header  # noqa: E402

KERNEL = """
#include <tanada/device/gfile.cuh>
using namespace tanada;
extern "C" __global__ void BOUNDS kernel(gfile_ref files, int fd, u8 *target, u64 count) {
  GROUP const group{};
  for (u64 i = 0; i < count; i++) { CALL }
}
"""
READ = "(void)gread(group, files, fd, target, i * 4096, 4096);"
# The last one: two blocks of 512 threads share a multiprocessor.
CALLS = {
    "no call": ("target[i] = u8(i);", ""),
    "gread": (READ, ""),
    "gwrite": ("(void)gwrite(group, files, fd, target, i * 4096, 4096);", ""),
    "gread, 2 blocks of 512": (READ, "__launch_bounds__(512, 2)"),
}


def filled_in(text, **words):
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def compiler_time():
    """Seconds of processor time of the programs that have been run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(group, call, bounds):
    begin = compiler_time()
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "kernel.cu"), pathlib.Path(folder, "kernel.cubin")
        source.write_text(filled_in(KERNEL, GROUP=group, CALL=call, BOUNDS=bounds))
        messages = subprocess.run(
            [
                "nvcc",
                f"-I{ROOT}/include",
                "-O3",
                "-std=c++17",
                "-arch=sm_90",
                "-cubin",
                "-Xptxas",
                "-v",
                "-o",
                cubin,
                source,
            ],
            text=True,
            capture_output=True,
            check=True,
        ).stderr
        seconds = compiler_time() - begin
        sections = subprocess.run(
            ["readelf", "-SW", cubin], text=True, capture_output=True, check=True
        ).stdout
    code = sum(
        int(size, 16)
        for size in re.findall(r"\s\.text\.\S+\s+PROGBITS\s+\S+\s+\S+\s+(\S+)", sections)
    )
    spills = sum(int(size) for size in re.findall(r"(\d+) bytes spill stores", messages))
    registers = int(re.search(r"Used (\d+) registers", messages)[1])
    return registers, spills, code, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    wanted = parser.parse_args()
    rows = []
    print(f"{'kernel':32} {'registers':>9} {'spilt, bytes':>12} {'code, bytes':>12} {'s':>6}")
    for group in ("this_thread", "this_warp", "this_block"):
        empty_seconds = 0.0
        for name, (call, bounds) in CALLS.items():
            registers, spills, code, seconds = measure(group, call, bounds)
            empty_seconds = empty_seconds or seconds
            added = round(seconds - empty_seconds, 2)
            what = f"{group}, {name}"
            print(f"{what:32} {registers:9} {spills:12} {code:12} {added:6}")
            for value, unit, bar in (
                (registers, "registers", 64),
                (spills, "bytes spilt", 0),
                (code, "bytes of code", 40960),
                (added, "s of the compiler", 0.5),
            ):
                rows.append(
                    {
                        "what": what,
                        "value": value,
                        "unit": unit,
                        "rival": None,
                        "rival_value": None,
                        "ratio": None,
                        "bar": bar,
                        "better": "lower",
                        "met": None if bar is None else value <= bar,
                    }
                )
    result = {**header("gfile_cost"), "machine": "nvcc for sm_90", "rows": rows}
    text = json.dumps(result, indent=1)
    if wanted.json:
        pathlib.Path(wanted.json).write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
