#!/usr/bin/env python3
"""Draws the paper's figure 6 from the output of bench_gfile. usage: plot_sizes.py RESULT.json
PICTURE.svg

Seconds to read a file by its size: by kernels, with and without the direct path, and by programs
without gfile. Needs matplotlib.
"""

import json
import re
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plot


def main(source, target):
    lines = {}
    result = json.load(open(source, encoding="utf-8"))
    for row in result["rows"]:
        found = re.match(r"figure 6, (\d+) MiB: (.*)", row["what"])
        if not found:
            continue
        size = int(found[1])
        lines.setdefault("gfile, " + found[2], {})[size] = row["value"]
        if row["rival_value"] is not None:
            lines.setdefault(row["rival"], {})[size] = row["rival_value"]
    if not lines:
        sys.exit(f"{source} has no rows of figure 6: run bench_gfile --only sizes")
    plot.figure(figsize=(7, 4.5))
    for name, points in sorted(lines.items()):
        sizes = sorted(points)
        plot.loglog(sizes, [points[size] for size in sizes], marker="o", label=name)
    plot.xlabel("file size, MiB")
    plot.ylabel("time to device memory, ms")
    plot.title(result["machine"].split(";")[0] + ", files on tmpfs")
    plot.grid(True, which="both", alpha=0.3)
    plot.legend()
    plot.tight_layout()
    plot.savefig(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
