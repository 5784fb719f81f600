"""Draws the pictures of tools/figures.py with matplotlib."""

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plot  # noqa: E402

BARS_WIDTH = 0.8  # of all bars of a place
LEGEND_ENTRIES_MAX = 5  # a longer legend is drawn below its panel
# The same picture on every run: without a date and with names that do not vary.
plot.rcParams.update({"svg.hashsalt": "tanada", "svg.fonttype": "none", "font.size": 8})
plot.rcParams.update({"axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True})


def places_of(series):
    return list(dict.fromkeys(place for points in series.values() for place in points))


def draw_bars(axes, series):
    places = places_of(series)
    width = BARS_WIDTH / len(series)
    for i, (name, points) in enumerate(series.items()):
        drawn = [(k, points[place]) for k, place in enumerate(places) if place in points]
        xs = [k - BARS_WIDTH / 2 + (i + 0.5) * width for k, _ in drawn]
        bars = axes.bar(xs, [value for _, value in drawn], width, label=name)
        if len(places) * len(series) <= 12:
            axes.bar_label(bars, fmt="%.3g", fontsize=6)
    axes.set_xticks(range(len(places)), [str(place).replace(", ", ",\n") for place in places])
    axes.grid(False, axis="x")


def draw_lines(axes, series, is_ratio, axis):
    for name, points in series.items():
        sizes = sorted(points)
        axes.plot(sizes, [points[size] for size in sizes], marker="o", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(places_of(series), [f"{size:,}" for size in places_of(series)])
    axes.set_xlabel(axis)
    if not is_ratio:
        axes.set_yscale("log")


def draw_panel(axes, part):
    is_ratio = part["unit"] == "ratio"
    if part["kind"] == "lines":
        draw_lines(axes, part["series"], is_ratio, part.get("axis", "MiB"))
    else:
        draw_bars(axes, part["series"])
    if is_ratio:
        axes.axhline(1, color="black", linewidth=0.6)
    for i, (name, value) in enumerate(part["lines"].items()):
        style = ("--", ":", "-.")[i % 3]
        axes.axhline(
            value, color="firebrick", linestyle=style, linewidth=1, label=f"{name}: {value}"
        )
    if part["kind"] == "bars" or is_ratio:
        axes.set_ylim(bottom=0)
    axes.set_title(part["title"])
    axes.set_ylabel("relative" if is_ratio else part["unit"])
    if len(part["series"]) + len(part["lines"]) > LEGEND_ENTRIES_MAX:
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    else:
        axes.legend(fontsize=6)


def draw(entry, panels, target, digest):
    """One picture, with what is not measured below its panels."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    size = (9 if columns > 1 else 7, 3.2 * rows + 0.4)
    figure, all_axes = plot.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained"
    )
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, part in zip(all_axes.flat, panels):
        draw_panel(axes, part)
    if entry["missing"]:
        figure.supxlabel(f"Not measured: {entry['missing']}", fontsize=9, color="firebrick")
    figure.savefig(target, metadata={"Date": None, "Description": f"values {digest}"})
    plot.close(figure)
