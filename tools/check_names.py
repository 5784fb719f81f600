#!/usr/bin/env python3
"""Nouns for things: no identifier is a pronoun, a preposition or a bare participle.

File names, too: within a product a basename stands for one file. tools/names.txt lists how often a
file still uses such identifiers, and which basenames are used again; numbers only fall (see
ratchet.py). Tests and headers of others' standards are not read.
"""

import collections
import re

import ratchet
import tree

LIST = "tools/names.txt"
FOLDERS = ("src", "include")
LEFT_OUT = re.compile(r"_test\.cc$|/testing/|^include/compat/")
STOP_LIST = frozenset(
    "all as asked at by came come each found from given gone here in is kept left made mine none"
    " now one other ours own said seen some taken theirs then there to told was what which who whom"
    " with of".split()
)
SKIPPED = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/"
    r'|R"([^()\s\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#[^\n]*(?:(?<=\\)\n[^\n]*)*",
    re.S | re.M,
)
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*|(?<=\.)[A-Za-z_]\w*")
KEYWORDS = frozenset(
    "alignas auto bool break case catch char class const constexpr continue default delete do double"
    " else enum explicit extern false float for friend goto if inline int long namespace new noexcept"
    " nullptr operator override private protected public return short signed sizeof static struct"
    " switch template this throw true try typedef typename union unsigned using virtual void volatile"
    " while".split()
)
PRODUCT = re.compile(r"(?:src/products/\w+|src/\w+|include/tanada/device|include/tanada)/")


def identifiers(text):
    """(name, line) of each identifier of the code."""
    plain = SKIPPED.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(plain.splitlines(), 1):
        for match in NAME.finditer(line):
            if match[0] not in KEYWORDS:
                yield match[0], number


def name_findings(name, text):
    for identifier, line in identifiers(text):
        if identifier.rstrip("_") in STOP_LIST:
            yield (
                name,
                line,
                "name",
                f"{identifier} is no name: use a noun, or a verb for an action",
            )


def basename_findings(names):
    """One finding for each file of a product after the first of its basename."""
    files = collections.defaultdict(list)
    for name in names:
        product = PRODUCT.match(name)
        if product:
            files[product[0], name.rpartition("/")[2]].append(name)
    for (product, basename), group in sorted(files.items()):
        for name in group[1:]:
            yield product, 1, basename, f"{name} has the basename of {group[0]}"


def sources(root):
    for path in tree.files(root, *FOLDERS, suffixes=tree.CODE):
        name = path.relative_to(root).as_posix()
        if not LEFT_OUT.search(name):
            yield name, path


def find(root):
    names = []
    for name, path in sources(root):
        names.append(name)
        yield from name_findings(name, path.read_text(errors="replace"))
    yield from basename_findings(names)


def report(root):
    hits = collections.Counter()
    count = 0
    for _, path in sources(root):
        for identifier, _ in identifiers(path.read_text(errors="replace")):
            count += 1
            hits[identifier.rstrip("_")] += 1
    hits = collections.Counter({name: hits[name] for name in STOP_LIST})
    yield f"{1000 * sum(hits.values()) / max(1, count):.1f} of 1,000 identifiers"
    yield ", ".join(f"{name} {number}" for name, number in hits.most_common(12))


def check(root):
    return list(ratchet.rises(list(find(root)), ratchet.read(root / LIST)))


if __name__ == "__main__":
    ratchet.run(__doc__, LIST, find, report)
