"""The site's pages of reference: headers, the Python package, commands and settings."""

import pathlib
import re

import man_pages

HEADERS = ("gfile.h", "pool.h", "store.h", "o2g.h", "o2g_driver.h", "status.h", "version.h")
MODULES = ("gfile", "pool", "stores", "fsspec", "torch", "shmem", "cupy", "numba")
COMMANDS = ("tanada", "tanada-poold", "oshrun", "tanada-nvcc")
SCRIPTS = ("oshcc",)
SETTINGS = "src/core/base/setting_names.hpp"
POOLD = "TND_POOLD_"


def comment_at_top(path):
    """(first sentence, the rest) of the comment that a header begins with."""
    text = re.sub(r"^/\* SPDX[^\n]*\n", "", path.read_text())
    if text.startswith("/*"):
        lines = text[: text.index("*/")].splitlines()
        lines = [re.sub(r"^(/\*| \*) ?", "", line).rstrip() for line in lines]
    else:
        lines = []
        for line in text.splitlines():
            if not line.startswith("//"):
                break
            lines.append(line[2:].removeprefix(" ").rstrip())
    body = "\n".join(lines).strip()
    summary = body.split("\n\n")[0]
    return " ".join(summary.split(": ", 1)[1].split()), body[len(summary) :].strip("\n")


def header_page(path, name):
    summary, rest = comment_at_top(path)
    contract = ["```text", rest, "```", ""] if rest else []
    title = f"tanada/{name}"
    return "\n".join(
        [f"# {title}", "", summary[:1].upper() + summary[1:], "", *contract,
         f"```{{doxygenfile}} {pathlib.PurePath(name).name}", "```", ""]
    )  # fmt: skip


def c_pages(root):
    names = [f"c/{name}" for name in HEADERS]
    yield "reference/c.md", "\n".join(
        ["# The C interface", "", "One page for each header.", "", "```{toctree}", ":maxdepth: 1",
         "", *names, "```", ""]
    )  # fmt: skip
    for name in HEADERS:
        yield f"reference/c/{name}.md", header_page(root / "include/tanada" / name, name)
    yield (
        "reference/device.md",
        header_page(root / "include/tanada/device/gfile.cuh", "device/gfile.cuh"),
    )


def module_part(name):
    return ["", f"## {name}", "", "```{eval-rst}", f".. automodule:: {name}", "   :members:", "```"]


def python_page():
    lines = ["# The Python package", "", "```{eval-rst}", ".. automodule:: tanada",
             "   :members: Error, check, include_dir, library_dir, status_name", "```"]  # fmt: skip
    for name in MODULES:
        lines += module_part(f"tanada.{name}")
    return "\n".join(lines) + "\n"


def commands_page(programs):
    lines = ["# Commands", "", "What `--help` prints."]
    for name in COMMANDS:
        for title, text in man_pages.command_parts(programs / name, []):
            lines += ["", f"## {title}", "", "```text", *text, "```"]
    for name in SCRIPTS:
        comment = man_pages.script_comment(programs / name)
        lines += ["", f"## {name}", "", "```text", *comment, "```"]
    return "\n".join(lines) + "\n"


def setting_texts(root):
    """{name: comment} of the settings for users, in the program's own table."""
    text = (root / SETTINGS).read_text()
    table = re.search(r"string_view setting_names\[\] = \{(.*?)\};", text, re.S)[1]
    return {
        name: " ".join(comment.replace("//", " ").split())
        for comment, name in re.findall(r'((?:^ *//.*\n)*) *"(TND_\w+)",', table, re.M)
    }


def flag_texts(programs):
    """{variable: text} of the daemon's flags."""
    texts = {}
    lines = "\n".join(man_pages.help_of(programs / "tanada-poold")).replace("\n" + " " * 30, " ")
    for flag, meaning in re.findall(
        r"^  --([\w-]+).*?(?:  +| in \[[^\]]*\]\S* +|:\{[^}]*\}\S* +)(\S.*)$", lines, re.M
    ):
        variable = POOLD + flag.removeprefix("no-").upper().replace("-", "_")
        texts[variable] = f"`--{flag}` of [tanada-poold](commands.md#tanada-poold): {meaning}"
    return texts


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def setting_places(root):
    """{name: (page, heading)} of the section that describes it: the first with a table of it, or else
    the first that mentions it.
    """
    rows, mentions = {}, {}
    for path in sorted((root / "docs").glob("*.md")):
        place = (path.name, "")
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                place = (path.name, anchor(line.lstrip("# ")))
            for name in re.findall(r"\bTND_\w+", line):
                mentions.setdefault(name, place)
                if line.startswith("|"):
                    rows.setdefault(name, place)
    return {**mentions, **rows}


def settings_page(root, programs):
    """A row for each name. One that nothing describes is an error."""
    lines = ["# Settings", "", "Every variable of the environment that Tanada reads. An unknown name",
             "that begins with `TND_` [is an error](../errors.md#settings-that-are-not-understood).",
             "", "| variable | meaning | page |", "| --- | --- | --- |"]  # fmt: skip
    places, flags = setting_places(root), flag_texts(programs)
    for name, comment in setting_texts(root).items():
        text = comment.replace("|", "\\|") or flags.get(name)
        if not text:
            raise SystemExit(f"site: {name} of {SETTINGS} has no comment and is no flag")
        link = ""
        if name in places:
            page, heading = places[name]
            link = f"[{page.removesuffix('.md')}](../{page}#{heading})"
        lines.append(f"| `{name}` | {text} | {link} |")
    return "\n".join(lines) + "\n"


def pages(root, programs):
    """{page: text}"""
    made = dict(c_pages(root))
    made["reference/python.md"] = python_page()
    made["reference/commands.md"] = commands_page(programs)
    made["reference/settings.md"] = settings_page(root, programs)
    return made
