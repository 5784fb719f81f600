#!/usr/bin/env python3
"""A function has at most 300 tokens and 15 branches, counted by lizard.

tools/functions.txt lists how many functions of a file are larger; numbers only fall (see
ratchet.py). `--report` prints assertions per 1,000 lines, too. Tests and headers of others'
standards are not read.
"""

import re

import check_names
import lizard
import ratchet

LIST = "tools/functions.txt"
TOKENS_MAX = 300
BRANCHES_MAX = 15
ASSERTION = re.compile(r"\b(?:TND_ASSERT|static_assert|assert)\b")


def function_findings(name, text):
    for function in lizard.analyze_file.analyze_source_code(name, text).function_list:
        line, what = function.start_line, function.name
        if function.token_count > TOKENS_MAX:
            text = f"{what} has {function.token_count} tokens, at most {TOKENS_MAX}"
            yield name, line, "tokens", text
        if function.cyclomatic_complexity > BRANCHES_MAX:
            text = f"{what} has {function.cyclomatic_complexity} branches, at most {BRANCHES_MAX}"
            yield name, line, "branches", text


def find(root):
    for name, path in check_names.sources(root):
        yield from function_findings(name, path.read_text(errors="replace"))


def report(root):
    lines, assertions = 0, 0
    for _, path in check_names.sources(root):
        text = path.read_text(errors="replace")
        lines += sum(bool(line.strip()) for line in text.splitlines())
        assertions += len(ASSERTION.findall(text))
    yield f"{1000 * assertions / max(1, lines):.1f} assertions per 1,000 lines"


def check(root):
    return list(ratchet.rises(list(find(root)), ratchet.read(root / LIST)))


if __name__ == "__main__":
    ratchet.run(__doc__, LIST, find, report)
