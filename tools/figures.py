#!/usr/bin/env python3
"""The papers' figures beside ours: docs/figures.md, and a picture for each in docs/figures/.

Also draws the pictures of other pages, which docs/measurements/plots.toml lists.
docs/measurements/papers.toml has what the papers print. All other values come from the JSON files of
docs/measurements. A picture contains a digest of its values, by which the checks of the tree find
pictures that are older than these files.

usage: tools/figures.py [--page-only]
Pictures need matplotlib: `make figures` runs this in an environment that has it.
"""

import argparse
import hashlib
import json
import re
import tomllib

import measurements
import tree

PAPERS = f"{measurements.FOLDER}/papers.toml"
PLOTS = f"{measurements.FOLDER}/plots.toml"
PAGE = "docs/figures.md"
PICTURES = "docs/figures"
NO_API = "no API"


def panel(title, unit, series, lines=None, kind="bars", axis="MiB"):
    """What one part of a picture shows: {name of a series: {place: value}}, and horizontal lines."""
    shown = {"title": title, "unit": unit, "series": series, "lines": lines or {}, "kind": kind}
    return shown if axis == "MiB" else {**shown, "axis": axis}


def matches(content, pattern):
    """(match, row) of the rows whose name has a pattern."""
    for row in content["rows"]:
        match = re.fullmatch(pattern, row["what"])
        if match and row["value"] is not None:
            yield match, row


def times_by_size(content, place, first):
    """{variant: {MiB: ms}} of figure 6 for a place of the file, with the program without the API."""
    series = {first: {}}
    for match, row in matches(content, rf"figure 6, (\d+) MiB, {place}: (.*)"):
        series[first][int(match[1])] = row["rival_value"]
        series.setdefault(match[2], {})[int(match[1])] = row["value"]
    return series


def ratios_to(series, first):
    return {
        name: {size: value / series[first][size] for size, value in points.items()}
        for name, points in series.items()
        if name != first
    }


def gfile_sequential(data, values):
    parts = [
        ("local replica, cold disk", data["gfarm"]),
        ("replica over TCP, cold disk", data["gfarm"]),
        ("local replica, in memory", data["gfarm_memory"]),
    ]
    panels, ratios = [], {}
    for place, content in parts:
        series = times_by_size(content, place, NO_API)
        panels.append(panel(f"Gfarm, {place}", "ms", series, kind="lines"))
        for name, points in ratios_to(series, NO_API).items():
            ratios[f"{place}, {name}"] = points
    return [*panels, panel("time relative to no API", "ratio", ratios, values, "lines")]


def gfile_matching(data, values):
    times, ratios = {}, {}
    for match, row in matches(data["gfarm"], r"figure 7, string matching, (.*), cold disk: (.*)"):
        times.setdefault(NO_API, {})[match[1]] = row["rival_value"]
        times.setdefault(match[2], {})[match[1]] = row["value"]
        ratios.setdefault(match[2], {})[match[1]] = row["value"] / row["rival_value"]
    return [
        panel("time of the whole program", "ms", times),
        panel("time relative to no API", "ratio", ratios, values),
    ]


def pool_sizes(data, values):
    panels = []
    for call in ("write", "read"):
        rates, ratios = {}, {}
        for match, row in matches(data["pool_sizes"], rf"(\d+) (MiB|GiB) {call}, the pool, (.*)"):
            size = int(match[1]) * (1024 if match[2] == "GiB" else 1)
            rates.setdefault("the pool, same node", {})[size] = row["value"]
            rates.setdefault("NFS over loopback", {})[size] = row["rival_value"]
            ratios.setdefault("the pool over NFS", {})[size] = row["value"] / row["rival_value"]
        paper = {"paper, 4 GB, InfiniBand QDR": values[call]}
        panels.append(panel(f"{call}s", "GB/s", rates, paper, "lines"))
        paper = {"paper, 4 GB": values[f"{call} ratio"]}
        panels.append(panel(f"{call}s relative to NFS", "ratio", ratios, paper, "lines"))
    return panels


def pool_fdtd(data, values):
    shares = {}
    pattern = r"2000 steps of 256\^3, a snapshot every 10: to (?:a )?(\w+), (.*)"
    for match, row in matches(data["fdtd"], pattern):
        part = 100 * (1 - row["rival_value"] / row["value"])
        shares.setdefault(f"to {match[1]}, {match[2]}", {})["1 GPU (H200)"] = max(part, 0)
    pattern = r"2000 steps of 226\^3 by 4 PEs, a snapshot every 10: to (?:a )?(\w+)"
    for match, row in matches(data["fdtd_4_gpus"], pattern):
        part = 100 * (1 - row["rival_value"] / row["value"])
        shares.setdefault(f"to {match[1]}, beside the steps", {})["4 GPUs (H100)"] = max(part, 0)
    return [panel("snapshots every 10 steps", "% of the time", shares, values)]


def o2g_npb(data, values):
    panels = []
    for class_name in "SW":
        series = {}
        pattern = rf"NPB (\w+)\.{class_name}, 4 ranks: (o2g .*)"
        for match, row in matches(data["o2g_driver"], pattern):
            series.setdefault(match[2], {})[match[1]] = row["ratio"]
        panels.append(
            panel(f"class {class_name}, in a guest, to Open MPI over TCP", "ratio", series)
        )
    series = {"o2g library": {}}
    for match, row in matches(data["o2g_host"], r"NPB (\w+)\.A, 4 ranks"):
        series["o2g library"][match[1]] = row["ratio"]
    title = "class A, to the fastest other MPI over TCP"
    return [*panels, panel(title, "ratio", series, values)]


def comex_bars(content, name):
    series = {}
    for match, row in matches(content, rf"({name}(?:, k = 10)?), (\d+) ranks, node"):
        series.setdefault("Tanada", {})[f"{match[1]}, {match[2]} ranks"] = row["value"]
        series.setdefault(row["rival"], {})[f"{match[1]}, {match[2]} ranks"] = row["rival_value"]
    return series


def comex_stencil(data, values):
    series = comex_bars(data["comex_host"], "stencil")
    speedups = {
        name: {
            f"{count} ranks": points[f"stencil, k = 10, {count} ranks"]
            / points[f"stencil, {count} ranks"]
            for count in (2, 4)
        }
        for name, points in series.items()
    }
    return [
        panel("in memory", "GF/s", series),
        panel("k = 10 relative to k = 1, in memory", "ratio", speedups, values),
    ]


def comex_dgemm(data, values):
    return [panel("in memory", "GF/s", comex_bars(data["comex_host"], "dgemm"))]


def shmem_latency(data, values):
    two, pairs = data["shmemg_2_h100"], data["shmemg_pairs_2_gpus"]
    rows = [
        (two, "8 B put, CPU -> own GPU, to local completion", "CPU to own GPU,\nlocal completion", 1),
        (two, "8 B put + wait, CPU -> own GPU", "CPU to own GPU,\ncomplete", 1),
        (two, r"8 B put \+ wait, own GPU -> peer GPU", "GPU to GPU,\nby the host", 1),
        (two, "kernel: put quiet, 8 B", "GPU to GPU,\nby a kernel", 1e-3),
        (pairs, "put from GPU to GPU of another node, 8 B", "GPU to GPU of\nother node by TCP", 1),
    ]  # fmt: skip
    bars = {}
    for content, pattern, name, scale in rows:
        pattern = pattern.replace("put + wait", r"put \+ wait")
        found = [row for _, row in matches(content, pattern) if row["unit"] in ("us", "ns")]
        bars[name] = found[0]["value"] * scale
    return [panel("put of 8 bytes", "us", {"Tanada": bars}, values)]


def application(data, values, name, size_pattern):
    by_size, by_count = {}, {}
    for match, row in matches(data["shmemg_2_h100"], rf"{name} ({size_pattern}), by the (\w+)"):
        if row["rival"] == "staged MPI":
            by_size.setdefault(f"by the {match[2]}", {})[match[1]] = row["ratio"]
    pattern = rf"{name} (weak|strong), (.*), (\d) PEs?, by the kernel"
    for match, row in matches(data["shmemg_scaling_4_h100"], pattern):
        if row["rival"] == "staged MPI":
            by_count.setdefault(f"{match[1]}, {match[2]}", {})[f"{match[3]}"] = row["ratio"]
    return [
        panel("two H100, by size", "ratio", by_size, values),
        panel("1, 2 and 4 H100, by the kernel", "ratio", by_count, values),
    ]


def shmem_stencil(data, values):
    return application(data, values, "stencil2d", r"\d+ x \d+")


def shmem_lbm(data, values):
    return application(data, values, "lbm", r"\d+ x \d+ x \d+")


def scale_measured(data, values):
    panels = []
    for carrier in ("node", "tcp"):
        series = {}
        pattern = rf"(barrier|reduce 8 B|alltoall 8 B), (\d+) PEs, {carrier}"
        for match, row in matches(data["shmem_scale_host"], pattern):
            series.setdefault(match[1], {})[int(match[2])] = row["value"]
            series.setdefault(f"{match[1]}, model", {})[int(match[2])] = row["rival_value"]
        title = {"node": "shared memory", "tcp": "TCP"}[carrier]
        panels.append(panel(f"{title}, 2 processors", "us", series, values, "lines", "PEs"))
    return panels


def scale_simulated(data, values):
    panels = []
    for network in ("TCP", "assumed network"):
        series = {}
        pattern = rf"(barrier|reduce 8 B|alltoall 8 B), (\d+) PEs, {network}: simulated"
        for match, row in matches(data["shmem_scale_host"], pattern):
            series.setdefault(match[1], {})[int(match[2])] = row["value"]
            if match[1] != "alltoall 8 B":
                name = f"{match[1]}, one level"
                series.setdefault(name, {})[int(match[2])] = row["rival_value"]
        panels.append(panel(f"{network}, nodes of 128", "us", series, values, "lines", "PEs"))
    return panels


READERS = {
    reader.__name__: reader
    for reader in (gfile_sequential, gfile_matching, pool_sizes, pool_fdtd, o2g_npb, comex_stencil,
                   comex_dgemm, shmem_latency, shmem_stencil, shmem_lbm, scale_measured,
                   scale_simulated)
}  # fmt: skip


def entries(root, path):
    """(entry of a list, its panels) of each picture."""
    data = measurements.load(root)
    for entry in tomllib.loads((root / path).read_text())["figure"]:
        panels = READERS[entry["name"]](data, entry["values"])
        for part in panels:
            if not part["series"] or not all(part["series"].values()):
                raise measurements.Fault(f"{path}: {entry['name']}: {part['title']}: no rows")
        yield entry, panels


def figures(root):
    """The pictures of docs/figures.md."""
    return entries(root, PAPERS)


def pictures(root):
    """All pictures."""
    yield from figures(root)
    yield from entries(root, PLOTS)


def digest(entry, panels):
    """Of what the picture shows."""
    text = json.dumps([entry["missing"], panels], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sources(data, entry):
    """Where the values are from, with the command that repeats each."""
    for stem in entry["files"]:
        first, *rest = measurements.written_by(data[stem])
        text = f"[{stem}](measurements/{stem}.md). {first}"
        yield from ["", *measurements.paragraph(" ".join(text.split())).splitlines(), *rest]


def page(root):
    """The text of docs/figures.md."""
    data = measurements.load(root)
    lines = [
        "# The papers' figures",
        "",
        *measurements.paragraph(
            "Each figure and table of the papers behind the products, and what was measured here in"
            " its place. Values of a paper are those that its text prints. Machines differ by a"
            " decade, so ratios to a rival of the same run compare, and times do not. `make figures`"
            " draws the pictures and writes this page."
        ).splitlines(),
    ]
    for entry, _ in figures(root):
        lines += [
            "",
            f"## {entry['title']}",
            "",
            f"![{entry['title']}](figures/{entry['name']}.svg)",
        ]
        for name in ("printed", "drawn", "missing"):
            title = {"printed": "The paper", "drawn": "Here", "missing": "Not measured"}[name]
            lines += ["", *measurements.paragraph(f"**{title}**: {entry[name]}").splitlines()]
        lines += ["", *measurements.paragraph(f"From: {entry['paper']}.").splitlines()]
        lines += sources(data, entry)
    return "\n".join(lines) + "\n"


def stale(root):
    """Findings: the page, and pictures, that differ from the measurements."""
    path = root / PAGE
    if not path.exists() or path.read_text() != page(root):
        yield f"{PAGE}: differs from what tools/figures.py writes: run make figures"
    for entry, panels in pictures(root):
        picture = root / PICTURES / f"{entry['name']}.svg"
        if not picture.exists() or digest(entry, panels) not in picture.read_text():
            yield f"{PICTURES}/{picture.name}: does not show the measurements: run make figures"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page-only", action="store_true", help="draw no pictures")
    options = parser.parse_args()
    if not options.page_only:
        import figure_pictures

        (tree.ROOT / PICTURES).mkdir(exist_ok=True)
        for entry, panels in pictures(tree.ROOT):
            target = tree.ROOT / PICTURES / f"{entry['name']}.svg"
            figure_pictures.draw(entry, panels, target, digest(entry, panels))
    (tree.ROOT / PAGE).write_text(page(tree.ROOT))


if __name__ == "__main__":
    main()
