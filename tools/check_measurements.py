#!/usr/bin/env python3
"""Measured figures: every one in README and docs is generated, and every JSON file is what a benchmark writes."""

import re

import figures
import measurements
import tree

# Rates and speed-ups appear only in text that tools/measurements.py writes. Decision records keep
# the figures of their time.
TYPED = re.compile(r"\d[\d.,]* ?(?:[GM]B/s|Gb/s|GFlop/s|Mop/s|M/s\b|k/s\b|µs\b|×(?! \d))")
ROW_KEYS = {"what", "value", "unit", "rival", "rival_value", "ratio", "bar", "better", "met"}
TOLERANCE = 0.02


def judged(row):
    """The value that "met" must have, or None where the row does not determine it."""
    held = row["value"] if measurements.bar_holds_value(row) else row["ratio"]
    if row["bar"] is None or held is None:
        return None
    return measurements.is_met(held, row)


def check_row(name, row):
    lacking = sorted(ROW_KEYS - set(row))
    if lacking:
        yield f"{name}: {row.get('what')!r} has no {', '.join(lacking)}"
        return
    if row["value"] is None and not isinstance(row.get("setups"), dict):
        yield f"{name}: {row['what']!r} has no value"
    # Rounded values, and medians of ratios, may differ in the last digit.
    at_the_bar = (
        row["ratio"] is not None
        and row["bar"] is not None
        and abs(row["ratio"] - row["bar"]) < TOLERANCE
    )
    if (
        row["met"] is not None
        and judged(row) is not None
        and row["met"] != judged(row)
        and not at_the_bar
    ):
        yield f"{name}: {row['what']!r} says met = {row['met']}, its figures say {judged(row)}"


def check_json(root):
    for stem, content in measurements.load(root).items():
        for row in content.get("rows", []):
            yield from check_row(f"{measurements.FOLDER}/{stem}.json", row)


def check_typed(root):
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if path == root / figures.PAGE:
            continue  # generated as a whole
        text = measurements.BLOCK.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
        for line_number, line in enumerate(text.splitlines(), 1):
            found = TYPED.search(line)
            if found:
                yield f"{path.relative_to(root)}:{line_number}: {found[0]!r} is a typed figure; select a row in {measurements.FOLDER}/selections.toml"


def check(root):
    problems = [*check_json(root), *check_typed(root)]
    if any(" has no " in problem for problem in problems):
        return problems  # a table needs every key of its rows
    try:
        files = measurements.generated(root)
        problems += figures.stale(root)
    except measurements.Fault as fault:
        return [*problems, str(fault)]
    for name, text in files.items():
        path = root / name
        if not path.exists() or path.read_text() != text:
            problems.append(f"{name}: differs from what tools/measurements.py writes: run it")
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
