#!/usr/bin/env python3
"""One effect a statement: no comma operator, no ?: as a statement, no assignment in an expression.

Headers of `for` may hold commas and assignments. Definitions of macros are not read, and an
argument of a macro may be a list in parentheses.
"""

import re

import cxx_tokens
import tree
from cxx_tokens import is_group, is_mark, split

FOLDERS = ("src", "include", "bench", "examples", "tests", "tools")

COMMA = "a comma joins expressions: write statements"
CONDITIONAL = "?: is a statement: write if"
SHORT_CIRCUIT = "&& or || is a statement: write if"
ASSIGNMENT = "an assignment inside an expression: write a statement before it"
LINE = "two statements on one line"

ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
TYPE_WORDS = set(
    "auto bool char char16_t char32_t char8_t const double float int long short signed struct"
    " unsigned void volatile".split()
)
# Words that begin a declaration.
SPECIFIERS = TYPE_WORDS | set(
    "alignas class concept consteval constexpr constinit decltype enum explicit extern friend"
    " inline mutable namespace"
    " register static static_assert template thread_local typedef typename union using virtual"
    " __constant__ __device__ __extension__ __global__ __host__ __shared__"
    " _Alignas _Atomic _Static_assert _Thread_local".split()
)
VALUES = {"return", "co_return", "co_yield", "throw"}
# Words after which a parenthesis holds an expression, not arguments.
PREFIXES = VALUES | {"case", "co_await", "delete", "do", "else", "goto"}
CONDITIONS = {"if", "switch", "while"}
CLASSES = {"class", "struct", "union"}
# Words before a parenthesis whose parts may hold a '='.
FREE_LISTS = {"__asm__", "__attribute__", "asm", "operator"}
QUALIFIERS = {"mutable", "noexcept", "__device__", "__host__"}
POINTERS = ("*", "&", "&&")
MACRO = re.compile(r"[A-Z][A-Z0-9_]*")


def is_macro(node):
    return node.kind == "name" and MACRO.fullmatch(node.text) is not None


def is_attribute(node):
    return is_group(node, "[") and len(node.nodes) == 1 and is_group(node.nodes[0], "[")


def is_declaration(nodes):
    """Do the tokens begin as `type name` does?"""
    while nodes and is_attribute(nodes[0]):
        nodes = nodes[1:]
    if not nodes or nodes[0].text in SPECIFIERS:
        return bool(nodes)
    position = end_of_type(nodes)
    if position == 0 or position == len(nodes):
        return False
    if nodes[position].kind == "name":
        if is_mark(nodes[position - 1], "&&"):  # else `a && b()` is an expression
            return [node.text for node in nodes[position + 1 : position + 2]] in ([], ["="])
        return not is_mark(nodes[position - 1], *POINTERS) or ends_name(nodes, position + 1)
    return is_function_pointer(nodes, position)


def end_of_type(nodes):
    """The position after `::a::b<c> *const &`; 0: they begin with no name."""
    inside = cxx_tokens.template_arguments(nodes)
    position = 1 if is_mark(nodes[0], "::") else 0
    while position < len(nodes) and nodes[position].kind == "name":
        position += 1
        while position < len(nodes) and position in inside:
            position += 1
        if position == len(nodes) or not is_mark(nodes[position], "::"):
            break
        position += 1
    while 0 < position < len(nodes) and (
        is_mark(nodes[position], *POINTERS) or nodes[position].text in ("const", "__restrict__")
    ):
        position += 1
    return position


def ends_name(nodes, position):
    return position == len(nodes) or nodes[position].text in ("=", ",", "{", "(", "[", ":")


def is_function_pointer(nodes, position):
    """`(*name)(...) =` after a type."""
    after = [node.text for node in nodes[position + 1 : position + 3]]
    node = nodes[position]
    return (
        is_group(node, "(")
        and bool(node.nodes)
        and is_mark(node.nodes[0], "*")
        and after == ["(", "="]
    )


def is_cast(before):
    """Does `(type)` stand last?"""
    if not before or not is_group(before[-1], "(") or not before[-1].nodes:
        return False
    if len(before) > 1 and before[-2].text not in PREFIXES:
        if before[-2].kind == "name" or before[-2].text in ("(", "[", ">"):
            return False
    nodes = before[-1].nodes
    words = [node.text for node in nodes]
    return all(node.kind == "name" or is_mark(node, "*", "::") for node in nodes) and (
        words[0] in TYPE_WORDS or words[-1] == "*" or words[-1].endswith("_t")
    )


def opens_expression(before):
    """Does a parenthesis after these tokens hold an expression, not arguments or parameters?"""
    if not before or is_cast(before):
        return True
    last = before[-1]
    if last.text in ("delete", "new") and before[-2:-1] and before[-2].text in ("::", "operator"):
        return False
    return (last.kind == "mark" and last.text != ">") or last.text in PREFIXES


def without_template(head):
    while len(head) > 1 and head[0].text == "template":
        inside = cxx_tokens.template_arguments(head)
        head = head[max(inside, default=0) + 1 :] if 1 in inside else head[1:]
    return head


def is_namespace(head):
    words = [node.text for node in head[:2]]
    return "namespace" in words or (words[:1] == ["extern"] and len(head) == 2)


def is_class_head(head):
    words = [node.text for node in head]
    return (
        "=" not in words
        and not CLASSES.isdisjoint(words[:4])
        and (not is_group(head[-1], "(") or "alignas" in words)
    )


def is_local_class(nodes):
    words = [node.text for node in nodes]
    if words[:1] == ["typedef"]:
        words = words[1:]
    return words[0] in CLASSES | {"enum"} and "{" in words and "=" not in words[: words.index("{")]


def is_body(head, after):
    """Is the brace after the head of a function's body? Otherwise it is an initialiser's."""
    words = [node.text for node in head]
    if "(" not in words or ("=" in words and "operator" not in words):
        return False
    is_of_member = ":" in words and head[-1].kind == "name" and bool(after)
    return not (is_of_member and after[0].text in (",", "{"))


def is_lambda(before):
    """Does `[...](...) mutable -> type` stand last?"""
    position = len(before)
    while position and (
        before[position - 1].kind == "name"
        or is_mark(before[position - 1], "->", "::", *POINTERS, "<", ">")
    ):
        position -= 1
    if position and is_group(before[position - 1], "("):
        position -= 1
        while position and before[position - 1].text in QUALIFIERS:
            position -= 1
    elif position < len(before) and before[position].text not in QUALIFIERS:
        return False
    if not position or not is_group(before[position - 1], "["):
        return False
    is_array = (
        position > 1
        and before[position - 2].kind == "name"
        and before[position - 2].text not in PREFIXES
    )
    return not is_array


def holds_statements(group):
    nodes = group.nodes
    starts = CONDITIONS | {"for", "do", "try"}
    return any(is_mark(node, ";") for node in nodes) or (bool(nodes) and nodes[0].text in starts)


class Reader:
    """Finds what breaks the rules in one file."""

    def __init__(self):
        self.problems = set()

    def report(self, node, what):
        self.problems.add((node.line, what))

    # Namespaces and classes hold declarations.

    def scope(self, nodes):
        position = 0
        while position < len(nodes):
            position = self.declaration(nodes, position)

    def declaration(self, nodes, start):
        """Reads one declaration of a namespace or a class; returns where the next begins."""
        rest = []
        for position in range(start, len(nodes)):
            node = nodes[position]
            if is_mark(node, ";"):
                self.groups(rest)
                return position + 1
            if is_group(node, "{"):
                head = without_template(nodes[start:position])
                if head and (is_namespace(head) or is_class_head(head)):
                    self.scope(node.nodes)
                    if is_namespace(head):
                        return position + 1
                    continue
                if is_body(head, nodes[position + 1 : position + 2]):
                    self.groups(rest)
                    self.block(node)
                    return position + 1
            rest.append(node)
        self.groups(rest)
        return len(nodes)

    # Functions hold statements.

    def block(self, group):
        nodes = group.nodes
        for node, after in zip(nodes, nodes[1:]):
            if is_mark(node, ";") and after.line == node.line:
                if after.text not in ("break", "continue", "return", ";"):
                    self.report(node, LINE)
        position = 0
        while position < len(nodes):
            position = self.statement(nodes, position)

    def statement(self, nodes, start):
        """Reads one statement, or the head of one; returns where the next begins."""
        node = nodes[start]
        if is_mark(node, ";") or is_attribute(node) or node.text in ("else", "do", "try"):
            return start + 1
        if (
            is_macro(node)
            and start + 1 < len(nodes)
            and nodes[start + 1].text in CONDITIONS | {"for", "do"}
        ):
            return start + 1  # a pragma
        if is_group(node, "{"):
            self.block(node)
            return start + 1
        if node.text in ("case", "default"):
            return next(
                (at + 1 for at in range(start, len(nodes)) if is_mark(nodes[at], ":")), len(nodes)
            )
        if node.kind == "name" and start + 1 < len(nodes) and is_mark(nodes[start + 1], ":"):
            return start + 2
        if node.text in CONDITIONS | {"for", "catch"}:
            return self.head(nodes, start)
        return self.simple(nodes, start)

    def head(self, nodes, start):
        position = start + 1
        while position < len(nodes) and not is_group(nodes[position], "("):
            position += 1
        if position == len(nodes):
            return position
        parts = split(nodes[position].nodes, ";")
        if nodes[start].text == "for":
            for part in parts:
                self.groups(part)
        elif nodes[start].text in CONDITIONS:
            for part in parts[:-1]:
                self.effects(part)
            self.condition(parts[-1])
        return position + 1

    def condition(self, nodes):
        if is_declaration(nodes):
            self.declarators(nodes)
        else:
            self.value(nodes)
        self.groups(nodes)

    def simple(self, nodes, start):
        """Reads up to a semicolon, or a macro that needs none."""
        for position in range(start, len(nodes)):
            if is_mark(nodes[position], ";"):
                self.effects(nodes[start:position])
                return position + 1
            if position == start + 1 and self.ends_with_macro(nodes, start):
                self.groups(nodes[start : start + 2])
                return start + 2
        self.effects(nodes[start:])
        return len(nodes)

    @staticmethod
    def ends_with_macro(nodes, start):
        """`MACRO(...)` before what cannot go on with an expression."""
        if (
            not is_macro(nodes[start])
            or not is_group(nodes[start + 1], "(")
            or start + 2 >= len(nodes)
        ):
            return False
        return nodes[start + 2].kind == "name" or is_group(nodes[start + 2], "{")

    def effects(self, nodes):
        """One statement without its semicolon."""
        if not nodes:
            return
        if is_local_class(nodes):
            for node in nodes:
                if is_group(node, "{") and nodes[0].text != "enum":
                    self.scope(node.nodes)
            return
        if nodes[0].text in VALUES:
            self.value(nodes[1:])
        elif is_declaration(nodes):
            self.declarators(nodes)
        elif nodes[0].text not in ("asm", "__asm__", "goto"):
            self.effect(nodes)
        self.groups(nodes)

    def effect(self, nodes):
        parts = split(nodes, ",")
        if len(parts) > 1:
            self.report(nodes[0], COMMA)
        for part in parts:
            self.single_effect(part)

    def single_effect(self, nodes):
        inside = cxx_tokens.template_arguments(nodes)
        is_assigned = False
        for position, node in enumerate(nodes):
            if position in inside:
                continue
            if is_mark(node, *ASSIGNMENTS):
                if is_assigned:
                    self.report(nodes[0], ASSIGNMENT)
                is_assigned = True
            elif is_mark(node, "?") and not is_assigned:
                self.report(nodes[0], CONDITIONAL)
                return
            elif is_mark(node, "&&", "||") and not is_assigned:
                self.report(nodes[0], SHORT_CIRCUIT)
                return

    def value(self, nodes):
        """An expression whose value is used."""
        if len(split(nodes, ",")) > 1:
            self.report(nodes[0], COMMA)
        self.unassigned(nodes)

    def unassigned(self, nodes):
        if any(is_mark(node, *ASSIGNMENTS) for node in nodes) and "operator" not in (
            node.text for node in nodes
        ):
            self.report(nodes[0], ASSIGNMENT)

    def declarators(self, nodes):
        """`type a = b, c = d`: '=' stands after each name, and not again."""
        for part in split(nodes, ","):
            inside = cxx_tokens.template_arguments(part)
            marks = [
                at
                for at, node in enumerate(part)
                if is_mark(node, *ASSIGNMENTS) and at not in inside
            ]
            if len(marks) > 1 and "operator" not in (node.text for node in part):
                self.report(part[0], ASSIGNMENT)

    # Brackets inside of statements and declarations.

    def groups(self, nodes):
        for position, node in enumerate(nodes):
            if node.kind != "group":
                continue
            before, after = nodes[:position], nodes[position + 1 : position + 2]
            if is_group(node, "{"):
                self.braces(node, before)
            elif is_group(node, "["):
                self.brackets(node, before, after)
            elif is_group(node, "("):
                self.parentheses(node, before, after)
            else:
                self.groups(node.nodes)

    def braces(self, node, before):
        if is_lambda(before) or holds_statements(node):
            self.block(node)
            return
        for part in split(node.nodes, ","):
            self.groups(part)
            marks = [at for at, each in enumerate(part) if is_mark(each, "=")]
            # `.member = value`, `[index] = value`, and `enumerator = value`
            is_named = bool(marks) and (
                part[0].text in (".", "[") or marks[0] == 1 or is_attribute(part[marks[0] - 1])
            )
            self.unassigned(part[marks[0] + 1 :] if is_named else part)

    def brackets(self, node, before, after):
        is_index = bool(before) and (
            (before[-1].kind == "name" and before[-1].text not in TYPE_WORDS | PREFIXES)
            or before[-1].text in ("(", "[")
        )
        if (
            is_index
            and node.nodes
            and not is_attribute(node)
            and not (after and is_group(after[0], "{"))
        ):
            self.value(node.nodes)
        self.groups(node.nodes)

    def parentheses(self, node, before, after):
        if opens_expression(before):
            is_fold = any(is_mark(each, "...") for each in node.nodes)
            if not is_fold and not (after and is_group(after[0], "{")):
                self.grouping(node)
        elif is_macro(before[-1]):
            self.macro_arguments(node)
            return
        elif not is_group(before[-1], "[") and before[-1].text not in TYPE_WORDS | FREE_LISTS:
            for part in split(node.nodes, ","):
                if part and not is_declaration(part):
                    self.unassigned(part)
        self.groups(node.nodes)

    def grouping(self, node):
        if node.nodes and not is_declaration(node.nodes) and not holds_statements(node):
            self.value(node.nodes)

    def macro_arguments(self, node):
        for part in split(node.nodes, ","):
            is_list = len(part) == 1 and is_group(part[0], "(")
            if is_list and len(split(part[0].nodes, ",")) > 1:
                part = part[0].nodes
            self.groups(part)


def check_text(text):
    reader = Reader()
    reader.scope(cxx_tokens.tree_of(text).nodes)
    return sorted(reader.problems)


def check(root):
    problems = []
    for path in tree.files(root, *FOLDERS, suffixes=tree.CODE):
        name = path.relative_to(root).as_posix()
        problems += [f"{name}:{line}: {what}" for line, what in check_text(path.read_text())]
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
