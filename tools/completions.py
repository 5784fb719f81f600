#!/usr/bin/env python3
"""Completions of a command for bash, zsh and fish, made of its --help and its subcommands' --help.

usage: completions.py PROGRAM FOLDER
Writes FOLDER/NAME.bash, FOLDER/_NAME (zsh) and FOLDER/NAME.fish.
"""

import argparse
import pathlib
import re

import man_pages

OPTION = re.compile(r"^  ((?:-\w,)?--[a-z][\w-]*)(.*)$")
VALUE = re.compile(r"^ +[A-Z]{2,}")
CHOICE = r"[a-z]+(?::[A-Z]+)?"
CHOICES = re.compile(rf"{CHOICE}(?:, {CHOICE})* or {CHOICE}")
HEADER = "# Completions of {name}, made of its --help by tools/completions.py."


class level:
    """What may follow a command, or one of its subcommands: words with a meaning."""

    def __init__(self, words, lines):
        self.words = words
        self.subcommands = [match.groups() for match in man_pages.subcommand_lines(lines)]
        self.options = []  # (name, has a value, meaning)
        # A long option has its meaning on the next line.
        text = re.sub(r"\n {30,}", "  ", "\n".join(lines))
        for line in text.splitlines():
            if match := OPTION.match(line):
                meaning = re.split(r"\s{2,}", match[2].strip(), maxsplit=1)[-1]
                names = match[1].split(",")
                self.options.append((names[-1], bool(VALUE.match(match[2])), meaning))

    def path(self):
        """The words of the subcommand, each after a blank."""
        return "".join(f" {word}" for word in self.words)

    def value_choices(self):
        """The values of each option that takes one; none: files, or anything."""
        found = {}
        for name, has_value, meaning in self.options:
            if has_value:
                texts = re.findall(CHOICE, meaning) if CHOICES.fullmatch(meaning) else []
                words = [re.sub("[A-Z]+$", "", text) for text in texts if text != "or"]
                found[name] = words
        return found

    def candidates(self):
        return [name for name, _ in self.subcommands] + [name for name, _, _ in self.options]


def levels(program):
    for title, lines in man_pages.command_parts(program, []):
        yield level(title.split()[1:], lines)


def known_paths(parts):
    """A pattern of all paths of subcommands."""
    return " | ".join(f"'{part.path()}'" for part in parts if part.words)


def value_cases(parts, action):
    """A line for each option that takes a value, by the path of its subcommand."""
    for part in parts:
        for option, words in part.value_choices().items():
            yield f"    '{part.path()} {option}') {action(words)} ;;"


def bash(name, parts):
    """A case for each subcommand: its subcommands and options, or files for a URL or path."""
    function = "_" + re.sub(r"\W", "_", name)
    lines = [HEADER.format(name=name), f"{function}() {{",
             "  local word=${COMP_WORDS[COMP_CWORD]} path='' i candidates=''",
             "  local previous=${COMP_WORDS[COMP_CWORD - 1]}",
             "  for ((i = 1; i < COMP_CWORD; i++)); do",
             '    case "$path ${COMP_WORDS[i]}" in']  # fmt: skip
    if paths := known_paths(parts):
        lines.append(f'      {paths}) path="$path ${{COMP_WORDS[i]}}" ;;')
    lines += ["    esac", "  done", "  case $path in"]
    for part in parts:
        path = part.path()
        lines.append(f"    '{path}') candidates='{' '.join(part.candidates())}' ;;")
    lines += ["  esac", '  case "$path $previous" in']
    lines += value_cases(parts, lambda words: f"candidates='{' '.join(words)}'")
    lines += ["  esac", '  mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$word")', "}",
              f"complete -o default -F {function} {name}"]  # fmt: skip
    return lines


def quoted(text):
    """A text between single quotes, as every shell here reads it."""
    return text.replace("'", "").replace("\\", "")


def zsh_word(word):
    """A word of `_describe`, where a colon begins the meaning."""
    return "'" + word.replace(":", "\\:") + "'"


def zsh(name, parts):
    """As that of bash, with meanings."""
    function = "_" + name
    lines = [f"#compdef {name}", HEADER.format(name=name), f"{function}() {{",
             "  local path='' word", "  local -a candidates",
             "  for word in ${words[2,CURRENT-1]}; do", '    case "$path $word" in']  # fmt: skip
    if paths := known_paths(parts):
        lines.append(f'      {paths}) path="$path $word" ;;')
    lines += ["    esac", "  done", "  case $path in"]
    for part in parts:
        path = part.path()
        pairs = [*part.subcommands, *((option, text) for option, _, text in part.options)]
        texts = " ".join(f"'{word}:{quoted(text).replace(':', ' ')}'" for word, text in pairs)
        lines.append(f"    '{path}') candidates=({texts}) ;;")
    lines += ["  esac", '  case "$path ${words[CURRENT-1]}" in']
    lines += value_cases(parts, lambda words: f"candidates=({' '.join(map(zsh_word, words))})")
    lines += ["  esac", "  _describe 'word' candidates", "  _files", "}", f'{function} "$@"']
    return lines


def fish(name, parts):
    lines = [HEADER.format(name=name)]
    for part in parts:
        conditions = [f"__fish_seen_subcommand_from {word}" for word in part.words]
        inner = " ".join(word for word, _ in part.subcommands)
        if inner:
            conditions.append(f"not __fish_seen_subcommand_from {inner}")
        condition = f" -n '{'; and '.join(conditions)}'" if conditions else ""
        for word, text in part.subcommands:
            lines.append(f"complete -c {name}{condition} -a {word} -d '{quoted(text)}'")
        for option, has_value, text in part.options:
            value = " -r" if has_value else ""
            if words := part.value_choices().get(option):
                value = f" -x -a '{' '.join(words)}'"
            lines.append(
                f"complete -c {name}{condition} -l {option.removeprefix('--')}{value}"
                f" -d '{quoted(text)}'"
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    name = options.program.name
    parts = list(levels(options.program))
    options.folder.mkdir(parents=True, exist_ok=True)
    for file, maker in ((f"{name}.bash", bash), (f"_{name}", zsh), (f"{name}.fish", fish)):
        (options.folder / file).write_text("\n".join(maker(name, parts)) + "\n")


if __name__ == "__main__":
    main()
