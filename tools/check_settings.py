#!/usr/bin/env python3
"""Is every environment variable that begins with TND_ in src/core/base/setting_names.hpp, read by somebody, and documented?"""

import re

import tree

LIST = "src/core/base/setting_names.hpp"
FOLDERS = ("src", "tools", "python", "tests", "bench", "examples")
# These set names that do not exist.
UNREAD = (
    LIST,
    "src/core/base/settings_test.cc",
    "tests/house",
    "tests/e2e/strangers",
    "tools/check_settings.py",
)
LITERAL = re.compile(r"""["'](TND_[A-Z0-9_]*[A-Z0-9])["']""")
WRONG = "_MISSPELT"  # tests set such names
COMMENT = re.compile(r"//.*")
SHELL = re.compile(r"\$\{?(TND_[A-Z0-9_]+)")
DAEMON_KEYS = re.compile(r"constexpr std::string_view keys\[\] = \{(.*?)\};", re.DOTALL)


def listed(root):
    """The names for users, and those for development."""
    text = (root / LIST).read_text()
    arrays = dict(re.findall(r"string_view (\w+)\[\] = \{(.*?)\};", text, re.DOTALL))
    return [set(LITERAL.findall(arrays[name])) for name in ("setting_names", "development_names")]


def is_scanned(root, path):
    place = path.relative_to(root).as_posix()
    return not place.startswith(UNREAD)


def uncommented(root, users):
    """Names for users without a comment, except the daemon's: its flags have a text in --help."""
    text = (root / LIST).read_text()
    return [
        name
        for name in sorted(users)
        if not name.startswith("TND_POOLD_") and not re.search(rf'// .*\n *"{name}",', text)
    ]


def read(root):
    """name -> the file that names it as a string (C, C++, Python) or as a variable (shell)."""
    found = {}
    for path in tree.files(root, *FOLDERS, suffixes=tree.CODE | {".py", ".sh"}):
        if is_scanned(root, path):
            pattern = SHELL if path.suffix == ".sh" else LITERAL
            text = COMMENT.sub("", path.read_text(errors="replace"))
            for name in pattern.findall(text):
                if not name.endswith(WRONG):
                    found.setdefault(name, path.relative_to(root))
    # Names that code puts together, and those that only a target of the Makefile or a fixture passes on.
    options = root / "src/products/poold/options.cc"
    for key in re.findall(r'"(\w+)"', DAEMON_KEYS.search(options.read_text())[1]):
        found.setdefault(f"TND_POOLD_{key.upper()}", options.relative_to(root))
    return found


def check(root):
    users, developers = listed(root)
    found = read(root)
    uncommented_names = uncommented(root, users)
    # Names of statuses are strings, too.
    statuses = set(
        re.findall(r"\b(TND_E[A-Z]+|TND_OK)\b", (root / "include/tanada/status.h").read_text())
    )
    problems = [
        f"{found[name]}: {name} is not in {LIST}: programs that set it would be refused"
        for name in sorted(found.keys() - users - developers - statuses)
    ]
    problems += [
        f"{LIST}: {name} is read nowhere" for name in sorted((users | developers) - found.keys())
    ]
    problems += [f"{LIST}: {name} has no comment above it" for name in uncommented_names]
    documents = "".join(path.read_text() for path in tree.files(root, "docs", suffixes={".md"}))
    for name in sorted(users):
        flag = "--" + name.removeprefix("TND_POOLD_").lower().replace("_", "-")
        is_flag = name.startswith("TND_POOLD_") and (
            flag in documents or flag.replace("--", "--no-") in documents
        )
        if not is_flag and not re.search(rf"\b{name}\b", documents):
            problems.append(f"{LIST}: {name} stands on no page of docs/")
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
