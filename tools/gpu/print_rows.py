#!/usr/bin/env python3
"""Print rows of benchmarks' JSON files in a bounded number of characters: first those that miss
their bars, then the others that have one, then the rest.

usage: print_rows.py [--size CHARACTERS] FILE.json...
"""

import argparse
import json
import pathlib


def shown(value):
    return "" if value is None else f"{value:.4g}"


def line_of(stem, row):
    verdict = {None: "", True: "met", False: "MISSED"}[row.get("met")]
    rival = f"{row.get('rival') or ''} {shown(row.get('rival_value'))}".strip()
    words = [stem, row["what"], f"{shown(row['value'])} {row['unit']}", rival]
    return "; ".join([*words, shown(row.get("ratio")), verdict]).rstrip("; ")


def rank(row):
    return {False: 0, True: 1, None: 2}[row.get("met")]


def is_extreme(row):
    """Whether a row is the minimum or the maximum of another row's mean."""
    return " least, " in row["what"] or " most, " in row["what"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    wanted = parser.parse_args()
    rows, heads = [], []
    for path in wanted.files:
        try:
            content = json.loads(path.read_text())
            judged = [row for row in content["rows"] if row.get("met") is not None]
            heads.append(
                f"{path.stem}: {len(content['rows'])} rows, {sum(row['met'] for row in judged)} of "
                f"{len(judged)} bars met; {content['machine']}"
            )
            rows += [(rank(row), path.stem, row) for row in content["rows"] if not is_extreme(row)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            heads.append(f"{path.name}: {error!r}")
    left = wanted.size - sum(len(head) + 1 for head in heads)
    omitted = 0
    for _, stem, row in sorted(rows, key=lambda entry: entry[0]):
        line = line_of(stem, row)
        left -= len(line) + 1
        if left < 0:
            omitted += 1
            continue
        print(line)
    print(f"{omitted} more rows are in the files")
    print("\n".join(heads))


if __name__ == "__main__":
    main()
