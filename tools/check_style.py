#!/usr/bin/env python3
"""File lengths and sizes, tabs, leftovers, dead code, formats, and where conditionals may stand."""

import re

import tree

LINES_MAX = 800
SIZE_MAX = 1 << 20  # bytes: what is larger was not written here, such as a core file
# Lists of counts that only fall (tools/ratchet.py) are as long as the tree has faults.
LISTS = ("tools/prose.txt", "tools/names.txt", "tools/functions.txt")
FOLDERS = (
    "src",
    "include",
    "kernel",
    "examples",
    "bench",
    "tests",
    "tools",
    "cmake",
    "python",
    "docs",
)
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
DEAD = re.compile(r"^\s*#\s*if\s+0\b")
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b\s*(.*)$")
# A call that formats by fmt, with a conversion of printf: fmt prints it, and drops the argument.
PRINTF = re.compile(
    r"\b(?:log|fail|fatal|format_text|report_error|report_failure|set_error)\("
    r'(?:[^;"]|"(?:\\.|[^"\\])*")*?'
    r'"(?:\\.|[^"\\])*?%[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|z|t)?[diuxXcsfgp]'
)
# include/compat: headers of others' standards, for more languages than ours.
# module.hpp: a variable of each device module, which nvcc, NVRTC and the host executor declare in their own ways.
# Macros for what only one of the compilers has.
COMPILER_MACROS = ("src/core/base/mutex.hpp",)
CONDITIONAL_PLACES = (
    "src/backends/",
    "src/executor/",
    "src/seams/os/",
    "include/tanada/device/detail/simt/",
    "include/compat/",
    "include/tanada/device/detail/gfile/module.hpp",
    "include/tanada/device/detail/shmem/calls/job_view.hpp",
)


def is_guard(lines, index, condition):
    """An include guard: #ifndef NAME_H and right after it #define NAME_H."""
    after = lines[index + 1].split() if index + 1 < len(lines) else []
    return lines[index].lstrip().startswith("#ifndef") and after == ["#define", condition]


def check_conditionals(name, lines):
    if (
        name.startswith(CONDITIONAL_PLACES)
        or name in COMPILER_MACROS
        or not name.startswith(("src/", "include/"))
    ):
        return
    for index, line in enumerate(lines):
        match = CONDITIONAL.match(line)
        if not match or is_guard(lines, index, match[2]) or DEAD.match(line):
            continue
        if name.startswith("include/") and match[2] in ("defined(__cplusplus)", "__cplusplus"):
            continue
        yield index + 1, "conditionals stand in src/backends and src/executor only"


def check_formats(name, text):
    if name.startswith("src/"):
        for match in PRINTF.finditer(text):
            line = text.count("\n", 0, match.end()) + 1
            yield line, "a conversion of printf in a text that fmt formats: write {}"


def check_file(name, text):
    lines = text.splitlines()
    if len(lines) > LINES_MAX and name not in LISTS:
        yield len(lines), f"{len(lines)} lines: more than {LINES_MAX} hold two things"
    for number, line in enumerate(lines, 1):
        if "\t" in line and not name.startswith("kernel/"):  # the kernel's own layout
            yield number, "tab"
        if line != line.rstrip():
            yield number, "blank at the end of the line"
        if LEFTOVER.search(line):
            yield number, "a leftover: do it or write it down as a known gap"
        if DEAD.match(line):
            yield number, "dead code"
    if not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    if name.endswith(tuple(tree.CODE)):
        yield from check_conditionals(name, lines)
        yield from check_formats(name, text)


def check_sizes(root):
    places = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        places += (path for path in (root / folder).rglob("*") if path.is_file())
    for path in sorted(places):
        if (size := path.stat().st_size) > SIZE_MAX:
            yield f"{path.relative_to(root).as_posix()}: {size} bytes: more than {SIZE_MAX}"


def check(root):
    problems = list(check_sizes(root))
    for path in tree.files(root, *FOLDERS, suffixes=tree.CODE | tree.SCRIPTS | {".md", ".txt"}):
        name = path.relative_to(root).as_posix()
        problems += [
            f"{name}:{number}: {what}" for number, what in check_file(name, path.read_text()) or ()
        ]
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
