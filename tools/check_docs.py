#!/usr/bin/env python3
"""README and docs: length, examples that stand in the files they name, make targets that exist,
links that resolve, a place on the site for every page, and the length of the first pages, whose
blocks `tests/e2e/strangers/test_start_pages.py` runs.
"""

import re
import tomllib

import tree

README_LINES_MAX = 170
CONTENTS = "docs/site/contents.toml"
START = "docs/start"
START_LINES_MAX = 100
START_PROGRAM_LINES_MAX = 40
FENCE = re.compile(r"^```(\w*)\s*$\n(.*?)^```\s*$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^(?://|#) (examples/\S+)$", re.M)
MAKE = re.compile(r"^make(?: +[A-Z_]+=\S+)* +([a-z-]+)", re.M)


def check_code(root, name, text):
    """Code blocks that name a file of examples/ in their first line are in that file; in README every block names one."""
    for language, body in FENCE.findall(text):
        if language not in ("c", "cpp", "cuda", "python"):
            continue
        shown = SHOWN.match(body)
        if not shown:
            if name == "README.md":
                yield f"{name}: a code block does not start with a comment naming its file in examples/: {body.splitlines()[0]}"
        elif not (root / shown[1]).is_file():
            yield f"{name}: {shown[1]} does not exist"
        elif body.partition("\n")[2].strip("\n") not in (root / shown[1]).read_text():
            yield f"{name}: the code block of {shown[1]} is not in the file"


def check_readme(root, text):
    problems = list(check_code(root, "README.md", text))
    count = len(text.splitlines())
    if count > README_LINES_MAX:
        problems.append(f"README.md: {count} lines, at most {README_LINES_MAX}")
    return problems


def check_make(root, name, text):
    """Every `make x` in a shell block or in code words is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.M))
    commands = [
        body for language, body in FENCE.findall(text) if language in ("sh", "bash", "console")
    ]
    commands += re.findall(r"`(make [^`]*)`", text)
    return [
        f"{name}: make {target} does not exist"
        for command in commands
        for target in MAKE.findall(command)
        if target not in targets
    ]


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(root, path, text):
    problems = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file_name, _, anchor = target.partition("#")
        linked = (path.parent / file_name) if file_name else path
        if not linked.exists():
            problems.append(f"{path.relative_to(root)}: {target} leads nowhere")
        elif anchor and anchor not in anchors(linked.read_text()):
            problems.append(f"{path.relative_to(root)}: {target}: no such heading")
    return problems


def check_contents(root):
    """Every page has one place on the site. Pages of folders with a README.md are below that."""
    sections = tomllib.loads((root / CONTENTS).read_text())["section"]
    listed = [page for section in sections for page in section["pages"]]
    pages = {
        path.relative_to(root / "docs").with_suffix("").as_posix()
        for path in tree.files(root, "docs", suffixes={".md"})
        if path.parent == root / "docs" or not (path.parent / "README.md").exists()
    } - {"README"}
    made = {"contributing", "security", "changes"} | {
        page for page in listed if page.startswith("reference/")
    }
    for page in sorted(set(listed)):
        if listed.count(page) > 1:
            yield f"{CONTENTS}: {page} stands in it {listed.count(page)} times"
        if page not in made and not (root / f"docs/{page}.md").exists():
            yield f"{CONTENTS}: docs/{page}.md does not exist"
    for page in sorted(pages - set(listed)):
        yield f"{CONTENTS}: docs/{page}.md has no place on the site"


def check_start_page(name, text):
    """A page of docs/start is short, and has only blocks that its test runs or compares."""
    if len(text.splitlines()) > START_LINES_MAX:
        yield f"{name}: more than {START_LINES_MAX} lines"
    for language, body in FENCE.findall(text):
        if language not in ("c", "cuda", "console", "sh", "text"):
            yield f"{name}: no test runs blocks of {language or 'no language'}"
        if language not in ("c", "cuda"):
            continue
        if not re.match(r"// \S+\.\w+\n", body):
            yield f"{name}: a program does not start with a comment naming its file"
        if len(body.splitlines()) > START_PROGRAM_LINES_MAX:
            yield f"{name}: a program has more than {START_PROGRAM_LINES_MAX} lines"


def check(root):
    problems = check_readme(root, (root / "README.md").read_text())
    problems += check_contents(root)
    for path in tree.files(root, START, suffixes={".md"}):
        problems += check_start_page(path.relative_to(root).as_posix(), path.read_text())
    names = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    pages = [root / name for name in names] + tree.files(root, "docs", suffixes={".md"})
    for path in pages:
        text = path.read_text()
        if path.name != "README.md" or path.parent != root:
            problems += check_code(root, path.relative_to(root).as_posix(), text)
        problems += check_make(root, path.relative_to(root).as_posix(), text) + check_links(
            root, path, text
        )
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
