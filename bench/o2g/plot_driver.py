#!/usr/bin/env python3
"""Draws the paper's figure 5 from the output of bench/o2g/driver.py. usage: plot_driver.py
RESULT.json PICTURE.svg

Mop/s of the NAS Parallel Benchmarks over each transport, relative to Open MPI's own over TCP, which
takes the place of the paper's MPICH. Needs matplotlib.
"""

import json
import re
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plot  # noqa: E402

WIDTH = 0.8  # of all bars of a benchmark
WHAT = re.compile(r"NPB (\w+)\.(\w), (\d+) ranks: (.*)")


def ratios_of(rows):
    """{class: {transport: {benchmark: ratio}}}, and the rival."""
    found, rival = {}, None
    for row in rows:
        match = WHAT.fullmatch(row["what"])
        if not match or row["ratio"] is None:
            continue
        rival = row["rival"]
        name, class_name, _, transport = match.groups()
        found.setdefault(class_name, {}).setdefault(transport, {})[name] = row["ratio"]
    return found, rival


def draw(axes, class_name, transports, rival):
    names = list(dict.fromkeys(name for ratios in transports.values() for name in ratios))
    width = WIDTH / len(transports)
    for i, (transport, ratios) in enumerate(transports.items()):
        places = [k - WIDTH / 2 + (i + 0.5) * width for k in range(len(names))]
        axes.bar(places, [ratios.get(name, 0) for name in names], width, label=transport)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel(f"Mop/s relative to {rival}")
    axes.set_title(f"class {class_name}")
    axes.grid(True, axis="y", alpha=0.3)


def main(source, target):
    with open(source, encoding="utf-8") as file:
        result = json.load(file)
    found, rival = ratios_of(result["rows"])
    if not found:
        sys.exit(f"{source} has no rows of figure 5: run driver.py --rows npb")
    figure, all_axes = plot.subplots(
        len(found), 1, figsize=(8, 3.2 * len(found)), squeeze=False, layout="constrained"
    )
    for axes, (class_name, transports) in zip(all_axes[:, 0], found.items()):
        draw(axes, class_name, transports, rival)
    handles, labels = all_axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle(result["machine"].split(" as a guest")[0], fontsize="small")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
