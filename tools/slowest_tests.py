#!/usr/bin/env python3
"""Print the slowest tests of JUnit reports, as ctest and pytest write them. Reports that do not exist are left out."""

import argparse
import pathlib
import sys
import xml.etree.ElementTree


def durations(report):
    """Seconds and name of each test that ran."""
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        folder = case.get("classname", "").replace(".", "/")
        name = case.get("name")
        # ctest repeats the name as the class.
        yield (
            float(case.get("time") or 0),
            name if folder.replace("/", ".") == name else f"{folder}::{name}",
        )


def slowest(reports, count):
    """The `count` slowest tests, the slowest first."""
    found = [entry for report in reports if report.is_file() for entry in durations(report)]
    return sorted(found, key=lambda entry: -entry[0])[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    entries = slowest(options.reports, options.count)
    if entries:
        print(f"the slowest {len(entries)} tests:")
    for seconds, name in entries:
        print(f"{seconds:8.1f} s  {name}")


if __name__ == "__main__":
    sys.exit(main())
