#!/usr/bin/env python3
"""Make the folder that Sphinx builds the documentation site from.

The pages of docs/ are taken as they are, in the order of docs/site/contents.toml. README.md is the
front page. Pages of the reference are made of the headers, the Python package, the settings and the
programs' --help. Links to files outside docs/ lead to a page that shows the file.

usage: tools/site_pages.py PROGRAMS FOLDER
PROGRAMS has tanada and the others of BUILD/bin. FOLDER is replaced.
"""

import os
import pathlib
import re
import shutil
import sys
import tomllib

import site_reference
import tree

ROOT = tree.ROOT
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```[ \t]*$)", re.M | re.S)
LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cu": "cpp",
    ".cuh": "cpp",
    ".hpp": "cpp",
    ".py": "python",
    ".sh": "bash",
}
# Where a file has a page under another name than its own.
PLACES = {
    "README.md": "index.md",
    "docs/README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "include/tanada/device/gfile.cuh": "reference/device.md",
    **{f"include/tanada/{name}": f"reference/c/{name}.md" for name in site_reference.HEADERS},
}


class site:
    """The folder in the making."""

    def __init__(self, root, folder):
        self.root = root
        self.folder = folder
        self.shown = set()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def place(self, name):
        """The page of a file of the tree, which is made if it has none; None for a folder."""
        if name in PLACES:
            return PLACES[name]
        if name.startswith("docs/"):
            return name.removeprefix("docs/")
        if not (self.root / name).is_file():
            return None
        self.shown.add(name)
        return f"files/{name}.md"

    def link(self, name, page, match):
        """A link of the file `name`, as the page that it becomes has it."""
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        file = os.path.normpath(os.path.join(os.path.dirname(name), target))
        place = self.place(file)
        if place is None:
            return match[1].strip("![]")
        relative = os.path.relpath(place, os.path.dirname(page) or ".")
        return f"{match[1]}({relative}{'#' if anchor else ''}{anchor})"

    def page(self, name, place, extra=""):
        """Copy a page, with links as they are on the site."""
        parts = FENCE.split((self.root / name).read_text())
        parts[::2] = [
            LINK.sub(lambda match: self.link(name, place, match), part) for part in parts[::2]
        ]
        # Without a network nothing draws these diagrams. Their source can be read.
        text = "".join(parts).replace("```mermaid", "```text")
        self.write(place, text + extra)

    def show_files(self):
        """A page for each file that a page links to."""
        for name in sorted(self.shown):
            language = LANGUAGES.get(pathlib.PurePath(name).suffix, "text")
            text = (self.root / name).read_text().replace("```", "'''")
            self.write(
                f"files/{name}.md", f"---\norphan: true\n---\n\n# {name}\n\n"
                f"```{language}\n{text}```\n"
            )  # fmt: skip


def toctree(pages, *options):
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def front_page_trees(contents):
    return "".join(
        toctree(section["pages"], ":hidden:", f":caption: {section['title']}")
        for section in contents["section"]
    )


def siblings(root, folder, listed):
    """A tree of the pages of a folder of docs/ that docs/site/contents.toml does not list."""
    places = [path.relative_to(root / "docs").with_suffix("") for path in folder.glob("*.md")]
    names = sorted(place.name for place in places if place.as_posix() not in listed)
    return toctree(names, ":maxdepth: 1", ":hidden:")


def listed_pages(contents):
    return {name for section in contents["section"] for name in section["pages"]}


def make(root, programs, folder):
    contents = tomllib.loads((root / "docs/site/contents.toml").read_text())
    listed = listed_pages(contents)
    shutil.rmtree(folder, ignore_errors=True)
    out = site(root, folder)
    out.page("README.md", "index.md", front_page_trees(contents))
    for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        out.page(name, PLACES[name])
    for path in tree.files(root, "docs"):
        name = path.relative_to(root).as_posix()
        place = name.removeprefix("docs/")
        if name == "docs/README.md" or place.startswith("site/"):
            continue
        if path.suffix != ".md":
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / place)
            continue
        extra = ""
        if path.name == "README.md":
            extra = siblings(root, path.parent, listed)
        out.page(name, place, extra)
    for name, text in site_reference.pages(root, programs).items():
        out.write(name, text)
    out.show_files()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make(ROOT, pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())


if __name__ == "__main__":
    main()
