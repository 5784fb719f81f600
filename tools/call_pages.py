#!/usr/bin/env python3
"""Manual pages of section 3, made of the comments in public headers: one page for each call, and one
for each header with what holds for all of its calls.

usage: call_pages.py FOLDER HEADER ...
"""

import argparse
import pathlib
import re

from man_pages import escaped, heading, inline, literal
from site_reference import comment_at_top

SECTION = "3"
C_CALL = re.compile(r"/\*\*((?:(?!\*/).)*)\*/\s*(TND_API\b[^;{]*;)", re.S)
DEVICE_CALL = re.compile(r"((?:^///.*\n)+)((?:^template .*\n)?TND_DEVICE\b[^;{]*;)", re.M)
TAG = re.compile(r"@(param|return)\s+(.*)")
STATUS = re.compile(r"((?:-?[A-Z]\w*|otherwise)(?:, -[A-Z]\w*)*)(?:\s{2,}|$)(.*)")
LABEL = re.compile(r"[A-Z][a-z ]+: ")  # such as "Errors: "
COLUMNS_MAX = 72
MACROS = re.compile(r"\b(?:TND_API|TND_NODISCARD|TND_NOEXCEPT|TND_DEVICE)\b ?")


def synopsis(declaration):
    """Lines of a declaration: one, or one for each parameter."""
    declaration = declaration.replace(") ;", ");")
    if len(declaration) <= COLUMNS_MAX:
        return [declaration]
    start, _, rest = declaration.partition("(")
    parameters = rest.removesuffix(");").split(", ")
    return [f"{start}(", *(f"    {text}," for text in parameters[:-1]), f"    {parameters[-1]});"]


class call:
    """A call of a header: its declarations, and its comment in parts."""

    def __init__(self, name):
        self.name = name
        self.declarations = []
        self.paragraphs = []
        self.parameters = []
        self.results = []

    def add(self, comment, declaration):
        self.declarations += synopsis(" ".join(MACROS.sub("", declaration).split()))
        part = None
        for line in [*comment, ""]:
            match = TAG.match(line)
            if match:
                part = self.parameters if match[1] == "param" else self.results
                part.append(match[2])
            elif not line:
                part = None
            elif part is None or (part is self.paragraphs and LABEL.match(line)):
                part = self.paragraphs
                part.append(line)
            else:
                part[-1] += " " + line.strip()


def comment_lines(comment):
    """The text of a comment, without the marks that begin its lines."""
    return [
        re.sub(r"^\s*(?:///|\*)? ?", "", line).rstrip() for line in comment.strip().splitlines()
    ]


def calls_of(text):
    """{name: call} of a header."""
    calls = {}
    for pattern in (C_CALL, DEVICE_CALL):
        for comment, declaration in pattern.findall(text):
            name = re.search(r"(\w+)\(", declaration)[1]
            calls.setdefault(name, call(name)).add(comment_lines(comment), declaration)
    return calls


def parameter(text):
    """A name, and what follows it: its direction, and its meaning."""
    name, _, rest = text.partition(" ")
    return [".TP", f"\\fI{escaped(name)}\\fR", inline(" ".join(rest.split()))]


def result(text):
    match = STATUS.match(text)
    if not match:
        return [".PP", inline(text)]
    return [".TP", f"\\fB{escaped(match[1])}\\fR", inline(match[2].strip()) or "\\&"]


def call_page(one, header, contract, version):
    paragraphs = [" ".join(text.split()) for text in one.paragraphs]
    first, _, _ = paragraphs[0].partition(". ")
    about = (first[:1].lower() + first[1:].rstrip(".")).replace("`", "")
    page = heading(one.name, SECTION, about, version)
    page += [".SH SYNOPSIS", *literal([f"#include <{header}>", "", *one.declarations])]
    page += [".SH DESCRIPTION", inline(paragraphs[0])]
    for text in paragraphs[1:]:
        page += [".PP", inline(text)]
    if one.parameters:
        page += [".SH PARAMETERS", *(line for text in one.parameters for line in parameter(text))]
    if one.results:
        page += [".SH RETURN VALUE", *(line for text in one.results for line in result(text))]
    return [
        *page,
        ".SH SEE ALSO",
        f"{escaped(contract)}(3): what holds for every call of the header",
    ]


def header_page(name, header, path, calls, version):
    summary, contract = comment_at_top(path)
    page = heading(name, SECTION, summary.rstrip("."), version)
    page += [".SH SYNOPSIS", *literal([f"#include <{header}>"])]
    if contract:
        page += [".SH DESCRIPTION", *literal(contract.splitlines())]
    names = ", ".join(f"\\fB{escaped(other)}\\fR(3)" for other in sorted(calls))
    return [*page, ".SH SEE ALSO", names]


def pages(path, version):
    """{name of the page: lines} of a header below include/."""
    header = path.as_posix().rpartition("include/")[2]
    contract = re.sub(r"\W", "_", header.removesuffix(path.suffix))
    calls = calls_of(path.read_text())
    made = {one.name: call_page(one, header, contract, version) for one in calls.values()}
    return {contract: header_page(contract, header, path, calls, version), **made}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("headers", type=pathlib.Path, nargs="+")
    parser.add_argument("--version", default="")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in options.headers:
        for name, lines in pages(path, options.version).items():
            (options.folder / f"{name}.{SECTION}").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
