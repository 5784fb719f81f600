#!/usr/bin/env python3
"""What one gread adds to a kernel: registers, spills and bytes of code, as compiled by nvcc for
sm_90; no GPU is needed.

usage: cost.py [--json FILE]. Prints a table, and JSON as the other benchmarks do.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/common"))

from machine import header  # noqa: E402

KERNEL = """
#include <tanada/device/gfile.cuh>
using namespace tanada;
extern "C" __global__ void kernel(gfile_ref files, int fd, u8 *target, u64 count) {
  GROUP const group{};
  for (u64 i = 0; i < count; i++) { CALL }
}
"""
CALLS = {
    "no call": "target[i] = u8(i);",
    "gread": "(void)gread(group, files, fd, target, i * 4096, 4096);",
    "gwrite": "(void)gwrite(group, files, fd, target, i * 4096, 4096);",
}


def measure(group, call):
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "kernel.cu"), pathlib.Path(folder, "kernel.cubin")
        source.write_text(KERNEL.replace("GROUP", group).replace("CALL", call))
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
        sections = subprocess.run(
            ["readelf", "-SW", cubin], text=True, capture_output=True, check=True
        ).stdout
    code = sum(
        int(size, 16)
        for size in re.findall(r"\s\.text\.\S+\s+PROGBITS\s+\S+\s+\S+\s+(\S+)", sections)
    )
    spills = sum(int(size) for size in re.findall(r"(\d+) bytes spill stores", messages))
    return int(re.search(r"Used (\d+) registers", messages)[1]), spills, code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    wanted = parser.parse_args()
    rows = []
    print(f"{'kernel':32} {'registers':>9} {'spilt, bytes':>12} {'code, bytes':>12}")
    for group in ("this_thread", "this_warp", "this_block"):
        for name, call in CALLS.items():
            registers, spills, code = measure(group, call)
            what = f"{group}, {name}"
            print(f"{what:32} {registers:9} {spills:12} {code:12}")
            for value, unit, bar in (
                (registers, "registers", None),
                (spills, "bytes spilt", 0),
                (code, "bytes of code", None),
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
