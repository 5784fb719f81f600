"""The page of the papers' figures and its pictures show the measurements."""

import json

import figures
import measurements
import pytest

ROOT = figures.tree.ROOT


def test_the_page_and_the_pictures_are_current():
    assert list(figures.stale(ROOT)) == []


def edit_row(tree, stem, what, value):
    path = tree / measurements.FOLDER / f"{stem}.json"
    content = json.loads(path.read_text())
    row = next(row for row in content["rows"] if row["what"] == what)
    row["value"] = value
    path.write_text(json.dumps(content))


def test_a_new_measurement_needs_a_new_picture(tree_copy):
    edit_row(tree_copy, "comex_host", "dgemm, 2 ranks, node", 12.5)
    assert list(figures.stale(tree_copy)) == [
        "docs/figures/comex_dgemm.svg: does not show the measurements: run make figures"
    ]


def test_a_missing_picture_is_found(tree_copy):
    (tree_copy / "docs/figures/pool_sizes.svg").unlink()
    assert list(figures.stale(tree_copy)) == [
        "docs/figures/pool_sizes.svg: does not show the measurements: run make figures"
    ]


def test_a_page_that_was_typed_is_found(tree_copy):
    page = tree_copy / figures.PAGE
    page.write_text(page.read_text().replace("at most 1.3 times", "at most 1.2 times"))
    assert list(figures.stale(tree_copy)) == [
        "docs/figures.md: differs from what tools/figures.py writes: run make figures"
    ]


def test_a_figure_without_rows_is_an_error(tree_copy):
    path = tree_copy / measurements.FOLDER / "fdtd.json"
    path.write_text(path.read_text().replace("a snapshot every 10: to", "snapshots to"))
    path = tree_copy / measurements.FOLDER / "fdtd_4_gpus.json"
    path.write_text(path.read_text().replace("a snapshot every 10: to", "snapshots to"))
    with pytest.raises(measurements.Fault, match="pool_fdtd: snapshots every 10 steps: no rows"):
        list(figures.figures(tree_copy))


def test_a_share_of_snapshots_is_what_they_add(tree_copy):
    edit_row(
        tree_copy,
        "fdtd",
        "2000 steps of 256^3, a snapshot every 10: to a pool, the steps wait",
        2.688,
    )
    panels = dict((entry["name"], parts) for entry, parts in figures.figures(tree_copy))
    shares = panels["pool_fdtd"][0]["series"]["to pool, the steps wait"]
    assert shares["1 GPU (H200)"] == pytest.approx(50.0)
