#!/usr/bin/env python3
"""Plain technical English in comments, documentation and log texts.

The rules are those of CONTRIBUTING.md and docs/glossary.md. tools/prose.txt lists how many
findings of each rule a file may still have; numbers only fall (see ratchet.py).

Comments of code and scripts, string literals of src and cmd, and Markdown outside of code are
read. Code words in backquotes are not.
"""

import io
import re
import tokenize

import measurements
import ratchet
import tree

LIST = "tools/prose.txt"
FOLDERS = (
    "src",
    "include",
    "kernel",
    "cmd",
    "bench",
    "examples",
    "tests",
    "tools",
    "python",
    "cmake",
)
MARKDOWN_FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
COLUMNS_MAX = 100
CELL_WORDS_MAX = 15
SENTENCE_WORDS_MAX = 40

# "Who is it" asks; "Who waits is woken" has no subject.
ASKS = "is|are|was|were|does|do|did|can|should|will|would|has|have"
WORD_RULES = {
    "who-clause": re.compile(
        rf"(?:\A|(?<=[.:;!?)])\s+)(?:Who|Whoever)\s+(?!(?:{ASKS})\b)\w+"
        r"|\b(?:as|by|for|from|of|than|to|with)\s+who(?:ever)?\b"
    ),
    "alone": re.compile(r"\b\w+\s+alone\b"),
    "tells": re.compile(r"\b(?:tells?|told|says|said|hears?|heard)\b", re.I),
    "want": re.compile(r"\bfor\s+want\s+of\b|\b(?:is|are)\s+none\b", re.I),
    "seed": re.compile(r"\bthe\s+seed(?:'s\b|:|,\s+\d)", re.I),
    "homely": re.compile(r"\b(?:strangers?|in\s+vain|thanks|by\s+and\s+by)\b", re.I),
}
MEANING = {
    "who-clause": "a clause without its subject: name the thread, peer or caller",
    "alone": 'write "only"',
    "tells": "programs send, report, return and log",
    "want": 'write "because of insufficient", "there is no"',
    "seed": 'write "the paper", or a reference such as [Matsuda 2004]',
    "homely": "use the word of docs/glossary.md",
    "table-semicolon": "a table holds facts: split the cell, or move it to a paragraph",
    "cell": f"a cell has at most {CELL_WORDS_MAX} words",
    "width": f"lines have at most {COLUMNS_MAX} columns",
    "sentence": f"a sentence has at most {SENTENCE_WORDS_MAX} words",
}

COMMENT_OR_STRING = re.compile(
    r"""(?P<line>(?://(?!/?<)[^\n]*(?:\n[ \t]*(?=//))?)+|//[^\n]*)|(?P<block>/\*.*?\*/)"""
    r"""|R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|(?P<string>"(?:\\.|[^"\\\n])*")"""
    r"""|'(?:\\.|[^'\\\n])*'""",
    re.S,
)
FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ \t]*$", re.M | re.S)
# Code words, and words that are quoted because they are spoken of.
CODE_WORDS = re.compile(r"""`[^`\n]*`|(?<!\w)(?:'[\w-]+'|"[\w-]+")(?!\w)""")
WORD = re.compile(r"[A-Za-z']+")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def unquoted(text):
    """The text with code words as one word each, so that counts stay."""
    return CODE_WORDS.sub(lambda match: "X".ljust(len(match[0])), text)


def word_count(text):
    """Words of a text, each run of code as one."""
    return len([word for word in unquoted(text).split() if re.search(r"\w", word)])


def word_findings(name, text, line):
    """Findings of the rules on words, in one comment or paragraph that begins at a line."""
    plain = unquoted(text)
    # A sentence may go on in the next line.
    joined = re.sub(
        r"\n[ \t]*(?:///?<?!?|\*(?!/)|#+|>)?[ \t]?", lambda m: m[0][:1].ljust(len(m[0])), plain
    )
    joined = joined.replace("\n", " ")
    for rule, pattern in WORD_RULES.items():
        for match in pattern.finditer(joined):
            at = match.start() + len(match[0]) - len(match[0].lstrip())
            found = " ".join(match[0].split())
            yield name, line + text.count("\n", 0, at), rule, f"{found!r}: {MEANING[rule]}"


def code_findings(name, text):
    has_log_texts = name.startswith(("src/", "cmd/")) and "_test." not in name
    for match in COMMENT_OR_STRING.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["line"] or match["block"]:
            body = re.sub(r"^(?:///?[<!]?|/\*\*?<?)\s?", lambda m: "", match[0])
            yield from word_findings(name, body, line)
        elif match["string"] and has_log_texts and len(WORD.findall(match["string"])) > 2:
            yield from word_findings(name, match["string"].strip('"'), line)


def python_findings(name, text):
    before = tokenize.NEWLINE
    comment, start, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if comment and line != last + 1:
                yield from word_findings(name, "\n".join(comment), start)
                comment = []
            start = line if not comment else start
            comment.append(token.string.lstrip("#! "))
            last = line
        elif token.type == tokenize.STRING and before in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.NL,
            tokenize.ENCODING,
        ):
            yield from word_findings(name, token.string.strip("\"'"), line)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    if comment:
        yield from word_findings(name, "\n".join(comment), start)


def script_findings(name, text):
    for match in re.finditer(r"^[ \t]*#[^\n]*(?:\n[ \t]*#[^\n]*)*", text, re.M):
        line = text.count("\n", 0, match.start()) + 1
        yield from word_findings(name, match[0].lstrip("#! \t"), line)


def cells_of(line):
    return [
        cell.strip() for cell in re.sub(r"(?<!\\)\|", "\n", line.strip().strip("|")).split("\n")
    ]


def is_table(line):
    return line.lstrip().startswith("|")


def paragraphs(text):
    """(line number, text) of paragraphs, list items and headings; rows of tables one by one."""
    block, start = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        begins = re.match(r"\s*(?:[-*+] |\d+\. |#+ )", line) or is_table(line)
        if block and (begins or not line.strip() or is_table(block[-1]) or block[-1][:1] == "#"):
            yield start, "\n".join(block)
            block = []
        if line.strip():
            start = start if block else number
            block.append(line)
    if block:
        yield start, "\n".join(block)


def sentences(text):
    plain = re.sub(r"\]\([^)]*\)", "]", " ".join(text.split()))
    return re.split(r"(?<=[.!?:])\s+(?=[A-Z`\[*])", plain)


def layout_findings(name, text):
    """Findings of the rules for Markdown on tables, width and sentences."""
    for number, line in enumerate(text.splitlines(), 1):
        if is_table(line):
            for cell in cells_of(unquoted(line)):
                if ";" in cell:
                    yield name, number, "table-semicolon", MEANING["table-semicolon"]
                if word_count(cell) > CELL_WORDS_MAX:
                    what = f"{word_count(cell)} words: {MEANING['cell']}"
                    yield name, number, "cell", what
        elif len(line) > COLUMNS_MAX and " " in line[:COLUMNS_MAX].strip("-*> "):
            yield name, number, "width", f"{len(line)} columns: {MEANING['width']}"
    for start, block in paragraphs(text):
        if is_table(block):
            continue
        for sentence in sentences(unquoted(block)):
            words = word_count(sentence)
            if words > SENTENCE_WORDS_MAX:
                what = f"{words} words: {sentence[:40]!r}: {MEANING['sentence']}"
                yield name, start, "sentence", what


def markdown_findings(name, text):
    text = FENCE.sub(blank, text)
    for start, block in paragraphs(text):
        yield from word_findings(
            name, re.sub(r"\A[ \t]*(?:[-*+>]|#+|\d+\.)[ \t]", "", block), start
        )
    yield from layout_findings(name, measurements.BLOCK.sub(blank, text))


def findings_of(name, text):
    """The findings in one file's text."""
    suffix = "." + name.rpartition(".")[2]
    if suffix in tree.CODE:
        return list(code_findings(name, text))
    if suffix == ".py":
        return list(python_findings(name, text))
    if suffix in tree.SCRIPTS or name.endswith("CMakeLists.txt"):
        return list(script_findings(name, text))
    if suffix == ".md":
        return list(markdown_findings(name, text))
    return []


def paths(root):
    suffixes = tree.CODE | tree.SCRIPTS | {".md", ".txt"}
    found = tree.files(root, *FOLDERS, suffixes=suffixes) + tree.files(
        root, "docs", suffixes={".md"}
    )
    return found + [root / name for name in MARKDOWN_FILES]


def find(root):
    for path in paths(root):
        yield from findings_of(path.relative_to(root).as_posix(), path.read_text(errors="replace"))


def check(root):
    return list(ratchet.rises(list(find(root)), ratchet.read(root / LIST)))


if __name__ == "__main__":
    ratchet.run(__doc__, LIST, find)
