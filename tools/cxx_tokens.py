"""C, C++ and CUDA as tokens nested by their brackets, for checks that need no compiler.

Preprocessor lines and comments are left out. Text that is not valid code gives some tree too.
"""

import re

TOKEN = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<blank>\s+)
  | (?P<string>(?:u8|[LuU])?R"(?P<delimiter>[^()\s\\]*)\(.*?\)(?P=delimiter)"
      |(?:u8|[LuU])?"(?:\\.|[^"\\\n])*"|(?:u8|[LuU])?'(?:\\.|[^'\\\n])*')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark><<<|<<=|->\*|\.\.\.|<=>|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
CLOSERS = {"(": ")", "[": "]", "{": "}", "<<<": ">"}


class Token:
    """A word, a number, a string or a mark."""

    def __init__(self, text, kind, begin, line):
        self.text, self.kind, self.begin, self.line = text, kind, begin, line
        self.end = begin + len(text)


class Group:
    """An opening bracket, with what stands up to the bracket that closes it."""

    kind = "group"

    def __init__(self, token):
        self.text, self.begin, self.line = token.text, token.begin, token.line
        self.end = token.end
        self.nodes = []


def blanked(match):
    return re.sub(r"[^\n]", " ", match[0])


def without_directives(text):
    """The text with comments and preprocessor lines as blanks, at the same offsets."""
    # A comment may hold what looks like a directive, and a directive may hold an odd quote.
    text = TOKEN.sub(
        lambda match: blanked(match) if match.lastgroup == "comment" else match[0], text
    )
    return DIRECTIVE.sub(blanked, text)


def tokens_of(text):
    line = 1
    for match in TOKEN.finditer(without_directives(text)):
        if match.lastgroup not in ("comment", "blank"):
            yield Token(match[0], match.lastgroup, match.start(), line)
        line += match[0].count("\n")


def tree_of(text):
    """A group of the whole text. A closing bracket that closes nothing stays as a token."""
    root = Group(Token("{", "mark", 0, 1))
    stack = [root]
    for token in tokens_of(text):
        if token.kind == "mark" and token.text in CLOSERS:
            group = Group(token)
            stack[-1].nodes.append(group)
            stack.append(group)
        elif token.kind == "mark" and closes(stack, token):
            stack.pop().end = token.end
        else:
            stack[-1].nodes.append(token)
    return root


def closes(stack, token):
    group = stack[-1]
    if len(stack) == 1 or token.text != CLOSERS[group.text]:
        return False
    if group.text != "<<<":
        return True
    if [node.text for node in group.nodes[-2:]] != [">", ">"]:
        return False
    del group.nodes[-2:]  # three of them end a launch
    return True


def is_mark(node, *texts):
    return node.kind == "mark" and node.text in texts


def is_group(node, bracket):
    return node.kind == "group" and node.text == bracket


def template_arguments(nodes):
    """Positions of the tokens from '<' to '>' of template arguments."""
    inside = set()
    for start in range(1, len(nodes)):
        if start in inside or not is_mark(nodes[start], "<") or nodes[start - 1].kind != "name":
            continue
        end = arguments_end(nodes, start)
        if end is not None:
            inside.update(range(start, end + 1))
    return inside


def arguments_end(nodes, start):
    depth = 0
    for position in range(start, len(nodes)):
        node = nodes[position]
        if is_mark(node, "<", ">"):
            depth += 1 if node.text == "<" else -1
            if depth == 0:
                return position
        elif node.kind == "mark" and node.text not in "::,*&&...-+/=":
            return None
    return None


def split(nodes, separator):
    """The parts between separators that stand in no brackets and in no template arguments."""
    inside = template_arguments(nodes)
    parts = [[]]
    for position, node in enumerate(nodes):
        if is_mark(node, separator) and position not in inside:
            parts.append([])
        else:
            parts[-1].append(node)
    return parts
