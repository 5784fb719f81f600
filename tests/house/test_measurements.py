import json

import check_measurements
import measurements
import pytest

FOLDER = "docs/measurements"


def test_figures_are_those_of_the_benchmarks(tree_copy):
    assert check_measurements.check(tree_copy) == []


@pytest.mark.parametrize(
    "ratio, bar, better, text",
    [
        (0.06597, None, "lower", "0.066"),
        (5.401, 2, "lower", "5.4"),
        (1.017, 1.02, "lower", "1.02"),
        (1.002, 1, "lower", "1.002"),
        (0.9996, 1, "higher", "0.9996"),
    ],
)
def test_short_ratios_agree_with_the_verdict(ratio, bar, better, text):
    row = {"ratio": ratio, "rival": "a rival", "bar": bar, "better": better, "met": None}
    if bar is not None:
        row["met"] = measurements.is_met(ratio, row)
    assert measurements.short_number(row, "ratio") == text


def test_short_values_agree_with_the_verdict():
    row = {"value": 0.6004, "rival": None, "bar": 0.6, "better": "lower", "met": False}
    assert measurements.short_number(row, "value") == "0.6004"
    assert measurements.short_number({**row, "met": None}, "value") == "0.6"


def edit(tree, name, old, new):
    path = tree / name
    text = path.read_text()
    assert old in text, f"{name} has no {old!r} to replace"
    path.write_text(text.replace(old, new, 1))


def edit_row(tree, stem, **values):
    path = tree / FOLDER / f"{stem}.json"
    content = json.loads(path.read_text())
    content["rows"][0].update(values)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "plant, finding",
    [
        (
            lambda tree: edit(tree, "README.md", "| [A warp reads", "| [Two warps read"),
            "README.md: differs",
        ),
        (lambda tree: edit_row(tree, "fdtd", value=1.0), "fdtd.md: differs"),
        (lambda tree: edit_row(tree, "fdtd", ratio=1.5), "says met = True"),
        (
            lambda tree: edit(tree, f"{FOLDER}/fdtd.json", '"command"', '"comment"'),
            "command missing",
        ),
        (lambda tree: edit(tree, f"{FOLDER}/fdtd.json", '"unit"', '"units"'), "has no unit"),
        (
            lambda tree: edit(tree, f"{FOLDER}/selections.toml", 'file = "fdtd"', 'file = "fdtb"'),
            "fdtb.json does not exist",
        ),
        (
            lambda tree: edit(
                tree,
                f"{FOLDER}/selections.toml",
                'what = "stencil, 4 ranks',
                'what = "stencil, 5 ranks',
            ),
            "0 rows",
        ),
        (
            lambda tree: edit(tree, f"{FOLDER}/selections.toml", "[[readme]]", "[[unshown]]"),
            "no page shows unshown",
        ),
        (
            lambda tree: edit(tree, "docs/pool.md", "\n", "\nIt reaches 54.0 GB/s.\n"),
            "'54.0 GB/s' is a typed figure",
        ),
        (
            lambda tree: edit(
                tree, "README.md", "\n## Limits", "\nIt is 3.2 × faster.\n\n## Limits"
            ),
            "is a typed figure",
        ),
        (lambda tree: (tree / FOLDER / "missed.md").unlink(), "missed.md: differs"),
    ],
)
def test_a_planted_fault_is_found(tree_copy, plant, finding):
    plant(tree_copy)
    problems = check_measurements.check(tree_copy)
    assert any(finding in problem for problem in problems), problems
