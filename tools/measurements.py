#!/usr/bin/env python3
"""Write all measured figures in README and docs, from the JSON files in docs/measurements.

A benchmark writes NAME.json. This program writes NAME.md beside it (a table of all rows), the index
in docs/measurements/README.md, missed.md (every bar that is not met), and each block of README.md
and docs/*.md between

    <!-- measured: NAME -->
    <!-- end -->

from the selection of that name in docs/measurements/selections.toml.

usage: tools/measurements.py [--root FOLDER]
"""

import argparse
import json
import pathlib
import re
import textwrap
import tomllib

FOLDER = "docs/measurements"
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.S)
HEADER_KEYS = ("bench", "date", "machine", "command", "rows")


class Fault(Exception):
    """A file breaks the rules above. The text names it."""


def number(value, digits=4):
    """A number of at most so many significant digits, without an exponent."""
    if value is None:
        return ""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e" in text and abs(value) >= 1 else text


def cell(text):
    return str(text or "").replace("|", "\\|").replace("\n", " ").replace(";", ",")


def paragraph(text):
    """The text in lines of 100 columns; code words are not broken."""
    kept = re.sub(r"`[^`]*`", lambda match: match[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(kept, 100, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def verdict(row):
    return {None: "", True: "met", False: "**missed**"}[row.get("met")]


def bar_of(row):
    if row.get("bar") is None:
        return ""
    sign = "≥" if row.get("better") == "higher" else "≤"
    # Without a rival, or with `bar_on`, the bar applies to the value instead of the ratio.
    unit = f" {row['unit']}" if bar_holds_value(row) else ""
    return f"{sign} {number(row['bar'])}{unit}"


def bar_holds_value(row):
    return row.get("bar_on") == "value" or (not row.get("rival") and row.get("bar_on") != "ratio")


def is_met(figure, row):
    if row["better"] == "higher":
        return figure >= row["bar"]
    return figure <= row["bar"]


def short_number(row, key):
    """The value or ratio of a row in three digits, or in four if three contradict its verdict."""
    text = number(row[key], 3)
    has_bar = row.get("met") is not None and (key == "value") == bar_holds_value(row)
    if has_bar and is_met(float(text.replace(",", "")), row) != row["met"]:
        return number(row[key])
    return text


def load(root):
    """{stem: content} of every JSON file of the folder."""
    return {
        path.stem: json.loads(path.read_text()) for path in sorted((root / FOLDER).glob("*.json"))
    }


def rows_table(content):
    lines = [
        "| what | value | rival | its value | ratio | bar | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in content["rows"]:
        value = f"{number(row.get('value'))} {cell(row.get('unit'))}".strip()
        cells = [
            cell(row["what"]),
            value,
            cell(row.get("rival")),
            number(row.get("rival_value")),
            number(row.get("ratio")),
            bar_of(row),
            verdict(row),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def counts(content):
    """(number of rows that meet their bar, number of rows with a verdict)"""
    judged = [row for row in content["rows"] if row.get("met") is not None]
    return sum(row["met"] for row in judged), len(judged)


def written_by(content):
    """The command, on lines of its own if it is longer than a line."""
    command, rest = content["command"], f"on {content['date']}: {content['machine']}."
    if len(command) <= 98:
        return [paragraph(f"Written by `{command}` {rest}")]
    lines = textwrap.wrap(command, 98, break_long_words=False, break_on_hyphens=False)
    return ["Written by", "", "```sh", " \\\n  ".join(lines), "```", "", paragraph(rest)]


def page(stem, content):
    met, judged = counts(content)
    lines = [
        f"# {stem}",
        "",
        *written_by(content),
    ]
    if content.get("note"):
        lines += ["", paragraph(content["note"])]
    bars = f"{met} of {judged} bars are met." if judged else "No row has a bar."
    lines += ["", f"{bars} A ratio is the value divided by the rival's."]
    return "\n".join(lines) + "\n\n" + rows_table(content)


def index_table(contents):
    lines = ["| figures | date | machine | bars met |", "| --- | --- | --- | --- |"]
    for stem, content in contents.items():
        met, judged = counts(content)
        bars = f"{met} of {judged}" if judged else ""
        lines.append(
            f"| [{stem}]({stem}.md) | {content['date']} | {cell(content['machine'])} | {bars} |"
        )
    return "\n".join(lines) + "\n"


def missed_page(contents):
    lines = [
        "# Bars that are missed",
        "",
        "Every row whose bar is not met, from the files of this folder. Known reasons are in the",
        "[findings](findings.md).",
        "",
        "| figures | what | value | rival | ratio | bar |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for stem, content in contents.items():
        for row in content["rows"]:
            if row.get("met") is False:
                value = f"{number(row.get('value'))} {cell(row.get('unit'))}".strip()
                rival = f"{cell(row.get('rival'))} {number(row.get('rival_value'))}".strip()
                lines.append(
                    f"| [{stem}]({stem}.md) | {cell(row['what'])} | {value} | {rival} | {number(row.get('ratio'))} |"
                    f" {bar_of(row)} |"
                )
    return "\n".join(lines) + "\n"


def find_row(contents, entry):
    content = contents.get(entry["file"])
    if content is None:
        raise Fault(f"{FOLDER}/selections.toml: {entry['file']}.json does not exist")
    found = [
        row
        for row in content["rows"]
        if row["what"] == entry["what"]
        and ("rival" not in entry or row.get("rival") == entry["rival"])
    ]
    if len(found) != 1:
        raise Fault(
            f"{FOLDER}/selections.toml: {len(found)} rows of {entry['file']}.json are called {entry['what']!r}"
        )
    return found[0]


def selection_table(contents, entries):
    lines = [
        "| what | result | better | relative to a rival in the same run | bar |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in entries:
        row = find_row(contents, entry)
        rival = ""
        if row.get("rival"):
            rival = f"{short_number(row, 'ratio')} × {cell(entry.get('rival_name', row['rival']))}"
        state = f"{bar_of(row)}: {verdict(row)}" if row.get("met") is not None else ""
        value = f"{short_number(row, 'value')} {cell(row['unit'])}"
        better = "more" if row["better"] == "higher" else "less"
        text = cell(entry.get("text", row["what"]))
        link = f"[{text}]({entry['link']}{entry['file']}.md)"
        lines.append(f"| {link} | {value} | {better} | {rival} | {state} |")
    return "\n".join(lines) + "\n"


def generated(root):
    """{path below root: text} of every file with figures."""
    contents = load(root)
    for stem, content in contents.items():
        lacking = [key for key in HEADER_KEYS if not content.get(key)]
        if lacking:
            raise Fault(
                f"{FOLDER}/{stem}.json: {', '.join(lacking)} missing: only benchmarks write these files"
            )
    files = {f"{FOLDER}/{stem}.md": page(stem, content) for stem, content in contents.items()}
    files[f"{FOLDER}/missed.md"] = missed_page(contents)
    selections = tomllib.loads((root / FOLDER / "selections.toml").read_text())
    used = set()
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        name = path.relative_to(root).as_posix()
        if name in files:
            continue
        depth = len(path.relative_to(root).parts) - 1
        link = {0: f"{FOLDER}/", 1: "measurements/"}.get(depth, "")

        def block(match, link=link):
            used.add(match[2])
            if match[2] == "index":
                return match[1] + index_table(contents) + match[4]
            if match[2] not in selections:
                raise Fault(f"{FOLDER}/selections.toml has no {match[2]!r}")
            entries = [{"link": link, **entry} for entry in selections[match[2]]]
            return match[1] + selection_table(contents, entries) + match[4]

        text = path.read_text()
        if "<!-- measured:" in text:
            files[name] = BLOCK.sub(block, text)
    unused = sorted(set(selections) - used)
    if unused:
        raise Fault(f"{FOLDER}/selections.toml: no page shows {', '.join(unused)}")
    return files


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent
    )
    root = parser.parse_args().root.resolve()
    files = generated(root)
    for path in (root / FOLDER).glob("*.md"):
        name = path.relative_to(root).as_posix()
        if (
            name not in files
            and path.name != "findings.md"
            and path.read_text().count("Written by `")
        ):
            path.unlink()
    for name, text in files.items():
        (root / name).write_text(text)


if __name__ == "__main__":
    main()
