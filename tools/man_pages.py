#!/usr/bin/env python3
"""Manual pages made of what is there already: a command's --help, the comment at the top of a script, or a document in
Markdown.

usage: man_pages.py command|script|document FOLDER/NAME.SECTION PROGRAM|SCRIPT|FILE.md
"""

import argparse
import pathlib
import re
import subprocess
import sys

HELP_LIMIT_S = 120
HEADING = re.compile(r"^[A-Z][\w ]*:$")
OPTION_HEADINGS = ("Options:", "Positionals:")
SUBCOMMAND = re.compile(r"^  ([a-z][\w-]*)\s{2,}(\S.*)$")
FENCE = "```"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")
# A paragraph ends at an empty line, and so does the text of a link.
WRAPPED_LINK = re.compile(r"\[[^\]\n]*\n(?!\n)[^\]\n]*\]\([^)\s]*\)")
SPAN = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*|(?<!\w)\*[^*\s][^*]*\*(?!\w))")
FONTS = {"`": "B", "**": "B", "*": "I"}


def escaped(text):
    """Text as roff prints it: no escapes, no requests, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in text)
    return "\\&" + text if text.startswith((".", "'")) else text


def heading(name, section, about, version):
    title = escaped(name.upper())
    return [
        f'.TH "{title}" "{section}" "" "tanada {version}" "Tanada"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(about)}",
    ]


def literal(lines):
    return [".nf", *(escaped(line) if line else "" for line in lines), ".fi"]


def help_of(program, *words):
    done = subprocess.run(
        [program, *words, "--help"], capture_output=True, text=True, timeout=HELP_LIMIT_S
    )
    if done.returncode != 0:
        sys.exit(f"man_pages: {program} {' '.join(words)} --help: {done.stderr.strip()}")
    return done.stdout.replace(str(program), pathlib.Path(program).name).strip().splitlines()


def subcommand_lines(lines):
    """A match of SUBCOMMAND for each subcommand: those below headings of which none is of options."""
    is_below = False
    for line in lines:
        if HEADING.match(line):
            is_below = line not in OPTION_HEADINGS
        elif is_below and (match := SUBCOMMAND.match(line)):
            yield match


def subcommands(lines):
    return [match[1] for match in subcommand_lines(lines)]


def command_parts(program, words):
    lines = help_of(program, *words)
    title = " ".join([pathlib.Path(program).name, *words])
    yield title, lines
    for name in subcommands(lines):
        yield from command_parts(program, [*words, name])


def summary(lines):
    """The first sentence of a help text, without a full stop."""
    first = next((line.strip() for line in lines if line.strip()), "")
    return first.split(". ")[0].rstrip(".")


def command_page(name, section, program, version):
    parts = list(command_parts(program, []))
    page = heading(name, section, summary(parts[0][1]), version)
    for title, lines in parts:
        page += [f'.SH "{escaped(title if title != name else "description").upper()}"']
        page += literal(lines)
    return page


def join_links(text):
    """Markdown whose links outside of fences each stand on one line."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [
        WRAPPED_LINK.sub(lambda link: re.sub(r"\s*\n\s*", " ", link[0]), part)
        for part in parts[::2]
    ]
    return "".join(parts)


def link_text(link):
    """What is left of a link: its address where it is one of the web."""
    return f"{link[1]} ({link[2]})" if "://" in link[2] else link[1]


def inline(text):
    """Bold, italics, code and links of Markdown."""
    out = []
    for part in SPAN.split(LINK.sub(link_text, text)):
        mark = re.match(r"`|\*\*|\*|", part)[0] if SPAN.fullmatch(part) else ""
        body = escaped(part[len(mark) : len(part) - len(mark)])
        out.append(f"\\f{FONTS[mark]}{body}\\fR" if mark else body)
    return "".join(out)


def cells(row):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def table(rows):
    """One paragraph a row: its first cell, and below it the others by the names of their columns."""
    titles, *body = [cells(row) for row in rows if not re.match(r"^[\s|:-]+$", row)]
    page = []
    for row in body:
        page += [".TP", inline(row[0]) or "\\&"]
        for title, cell in list(zip(titles, row))[1:]:
            if cell:
                page += [f"{inline(title)}: {inline(cell)}" if title else inline(cell), ".br"]
    return [*page, ".PP"]


class converter:
    """Markdown, as the documents here use it, line by line."""

    def __init__(self, lines):
        self.lines = lines
        self.page = []

    def take_while(self, start, belongs):
        end = start
        while end < len(self.lines) and belongs(self.lines[end]):
            end += 1
        return self.lines[start:end], end

    def step(self, start):
        """Convert what begins at a line, and return the line after it."""
        line = self.lines[start]
        if line.startswith(FENCE):
            body, end = self.take_while(start + 1, lambda each: not each.startswith(FENCE))
            self.page += [".PP", ".RS 4", *literal(body), ".RE", ".PP"]
            return end + 1
        if line.startswith("|"):
            rows, end = self.take_while(start, lambda each: each.startswith("|"))
            self.page += table(rows)
            return end
        match = re.match(r"^(#+) (.*)", line)
        if match:
            kind = ".SH" if len(match[1]) == 2 else ".SS"
            title = match[2].replace("`", "").replace('"', "")
            self.page += [f'{kind} "{escaped(title)}"']
            return start + 1
        match = re.match(r"^\s*([-*]|\d+\.) (.*)", line)
        if match:
            mark = "\\(bu" if match[1] in "-*" else match[1]
            self.page += [f".IP {mark} 4", inline(match[2])]
            return start + 1
        self.page += [inline(line.strip())] if line.strip() else [".PP"]
        return start + 1

    def convert(self):
        position = 0
        while position < len(self.lines):
            position = self.step(position)
        return self.page


def script_comment(script):
    """The comment below the interpreter's line."""
    lines = pathlib.Path(script).read_text().splitlines()[1:]
    end = next(index for index, line in enumerate(lines) if not line.startswith("#"))
    return [line[1:].removeprefix(" ") for line in lines[:end]]


def script_page(name, section, script, version):
    text = script_comment(script)
    page = heading(name, section, summary(text), version)
    return [*page, ".SH DESCRIPTION", *literal(text)]


def title_summary(name, title):
    """A document's title, without the page's own name before a colon."""
    title = title.lstrip("# ")
    subject, _, rest = title.partition(": ")
    return rest if rest and name.split("-")[-1] == subject else title


def document_page(name, section, document, version):
    title, *lines = join_links(pathlib.Path(document).read_text()).splitlines()
    page = heading(name, section, title_summary(name, title), version)
    return [*page, ".SH DESCRIPTION", *converter(lines).convert()]


MAKERS = {"command": command_page, "script": script_page, "document": document_page}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=list(MAKERS))
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("source")
    parser.add_argument("--version", default="")
    options = parser.parse_args()
    name, _, section = options.page.name.rpartition(".")
    page = MAKERS[options.kind](name, section, options.source, options.version)
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
