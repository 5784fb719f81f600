#!/usr/bin/env python3
"""Draws the bar chart of the pool's paper from the output of several_pes.py.

usage: plot_snapshots.py RESULT.json PICTURE.svg

Seconds of a run of FDTD without snapshots, with snapshots to the pool, and to files. Needs
matplotlib.
"""

import json
import re
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plot

ROW = re.compile(r"(\d+ steps of .*) by (\d+) PEs?, a snapshot every (\d+): to (.*)$")


def read(rows):
    """{PEs: {kind of run: seconds}}, and what was run."""
    runs, title = {}, ""
    for row in rows:
        match = ROW.match(row["what"])
        if not match or row["unit"] != "s":
            continue
        title = f"{match[1]}, a snapshot every {match[3]}"
        bars = runs.setdefault(int(match[2]), {})
        bars.setdefault(row["rival"], row["rival_value"])
        bars["to " + match[4]] = row["value"]
    return runs, title


def main(source, target):
    result = json.load(open(source, encoding="utf-8"))
    runs, title = read(result["rows"])
    if not runs:
        sys.exit(f"{source} has no runs with snapshots: run several_pes.py")
    names = list(dict.fromkeys(name for bars in runs.values() for name in bars))
    places = range(len(runs))
    width = 0.8 / len(names)
    plot.figure(figsize=(7, 4.5))
    for index, name in enumerate(names):
        offset = (index - (len(names) - 1) / 2) * width
        bars = [
            (place + offset, runs[count][name])
            for place, count in zip(places, sorted(runs))
            if name in runs[count]
        ]
        drawn = plot.bar(
            [place for place, _ in bars], [value for _, value in bars], width, label=name
        )
        plot.bar_label(drawn, fmt="%.2f", fontsize=8)
    plot.xticks(places, [f"{count} GPU{'s' * (count > 1)}" for count in sorted(runs)])
    plot.ylabel("seconds")
    plot.title(f"{title}\n{result['machine'].split(';')[0]}", fontsize=9)
    plot.legend()
    plot.tight_layout()
    plot.savefig(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
