"""The calls of OpenSHMEM 1.6, expanded from api-1.6.txt beside this file."""

import pathlib
import re
from typing import NamedTuple

LIST = pathlib.Path(__file__).with_name("api-1.6.txt")
TYPES = {
    "float": "float",
    "double": "double",
    "longdouble": "long double",
    "char": "char",
    "schar": "signed char",
    "short": "short",
    "int": "int",
    "long": "long",
    "longlong": "long long",
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "ulonglong": "unsigned long long",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "size": "size_t",
    "ptrdiff": "ptrdiff_t",
    "complexd": "double _Complex",
    "complexf": "float _Complex",
}
NAME = re.compile(r"(\w+)\(")


class Call(NamedTuple):
    section: str
    is_deprecated: bool
    name: str
    prototype: str  # in C, without a semicolon
    pattern: str  # the name with {NAME} or {SIZE}
    word: str  # what stands for it here; "" in a call of its own


def expand(text):
    tables, calls = {"-": [""]}, []
    for line in text.splitlines():
        if line.startswith("types "):
            name, words = line.removeprefix("types ").split(": ")
            tables[name] = words.split()
        elif line and not line.startswith(("#", "generic")):
            kind, pattern = line.split(": ")
            section, status, table = kind.split()
            for word in tables[table]:
                prototype = (
                    pattern.replace("{TYPE}", TYPES.get(word, ""))
                    .replace("{NAME}", word)
                    .replace("{SIZE}", word)
                )
                generic = re.search(r"([\w{}]+)\(", pattern)[1]
                calls.append(
                    Call(
                        section,
                        status == "deprecated",
                        NAME.search(prototype)[1],
                        prototype,
                        generic,
                        word,
                    )
                )
    return calls


def read():
    return expand(LIST.read_text())


def generics():
    """{generic name: whether a context may come first}"""
    found = {}
    for line in LIST.read_text().splitlines():
        if line.startswith("generic"):
            label, names = line.split(": ")
            found.update({name: label == "generic ctx" for name in names.split()})
    return found


def generic_of(call):
    """The generic name of a call, if it has one: shmem_put of shmem_int_put and shmem_ctx_int_put."""
    name = call.pattern.replace("shmem_ctx_", "shmem_").replace("{NAME}_", "")
    return {"shmem_team_sync": "shmem_sync"}.get(name, name)


def parameters(call):
    """The types of a prototype's parameters, in C."""
    inside = call.prototype[call.prototype.index("(") + 1 : -1]
    return (
        []
        if inside == "void"
        else [re.sub(r"\b\w+$", "", each.strip()).strip() for each in inside.split(",")]
    )


def in_cpp(text):
    return re.sub(r"\b(double|float) _Complex\b", r"std::complex<\1>", text)
