#!/usr/bin/env python3
"""Draws the paper's figures of Stencil2D and GPULBM from the output of shmemg.py --rows scaling.

usage: plot_scaling.py RESULT.json PICTURE.svg

Microseconds of one step by the number of GPUs, for a fixed size of each PE (weak) and of all PEs
together (strong): this library, NVSHMEM, and MPI with copies through host memory. Needs matplotlib.
"""

import json
import re
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plot

ROW = re.compile(r"(\w+ (?:weak|strong)), (.*), (\d+) PEs?, by the (\w+)$")


def read(rows):
    """{panel: {line: {PEs: us}}} of the rows that a figure shows."""
    panels = {}
    for row in rows:
        match = ROW.match(row["what"])
        if not match:
            continue
        panel = panels.setdefault(f"{match[1]}: {match[2]}", {})
        panel.setdefault(f"Tanada, by the {match[4]}", {})[int(match[3])] = row["value"]
        if row["rival_value"] is not None:
            panel.setdefault(row["rival"], {})[int(match[3])] = row["rival_value"]
    return panels


def main(source, target):
    result = json.load(open(source, encoding="utf-8"))
    panels = read(result["rows"])
    if not panels:
        sys.exit(f"{source} has no rows of scaling: run shmemg.py --rows scaling")
    figure, axes = plot.subplots((len(panels) + 1) // 2, 2, figsize=(9, 7), squeeze=False)
    for axis, (title, lines) in zip(axes.flat, sorted(panels.items())):
        for name, points in sorted(lines.items()):
            counts = sorted(points)
            axis.plot(counts, [points[count] for count in counts], marker="o", label=name)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("GPUs")
        axis.set_ylabel("us a step")
        axis.set_xticks(sorted({count for points in lines.values() for count in points}))
        axis.set_ylim(bottom=0)
        axis.grid(True, alpha=0.3)
        axis.legend(fontsize=8)
    figure.suptitle(result["machine"].split(",")[0])
    figure.tight_layout()
    figure.savefig(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
