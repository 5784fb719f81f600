#!/usr/bin/env python3
"""Does every include respect cmake/layers.txt, and do only the backends include system headers?

A folder is one of src/, two levels deep (src/rpc, src/sim and src/executor are one level),
device/NAME for include/tanada/device/detail/NAME, or kernel/NAME. An include is followed to the file that it names,
however it is spelled. Unit tests may include every folder that is no other product.

System headers that stood outside the backends when the rule was made are in
tools/system_headers.txt. A line that is no longer needed there is a problem too, so the list only
shrinks.
"""

import functools
import re

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SYSTEM_CLOCK = re.compile(
    r"\bsystem_clock\b|\bsteady_clock\b|\bclock_gettime\s*\(|\bgettimeofday\s*\("
)
DETAIL = "include/tanada/device/detail"
# Public headers whose bodies are a folder of device/detail.
BODIES = {
    "include/tanada/device/gfile.cuh": "device/gfile",
    "include/compat/shmemg/device.cuh": "device/shmem",
    "include/compat/shmemx_on_stream.cuh": "device/shmem",
}
ONE_LEVEL = {"rpc", "sim", "executor"}
# Headers of C that need no system, and of libraries that compute and reach nothing outside.
FREE = re.compile(
    r"^((std\w+|string|math|limits|errno|float|assert|inttypes|ctype|complex|time|immintrin|fenv)\.h"
    r"|spdlog/.*|fmt/.*|nlohmann/.*|boost/.*|xxhash\.h|sodium\.h|isa-l.*|isa-l/.*|toml\+\+/.*|gtest/.*"
    r"|sanitizer/.*|cuda/std/.*|cooperative_groups\.h)$"
)
# What implements an interface of others includes its headers: folder of src/ and which.
IMPLEMENTS = {
    "products/nixl": re.compile(r"^backend/.*$"),
    "products/o2g/provider": re.compile(r"^rdma/.*$"),
    "products/comex/mpi": re.compile(r"^mpi\.h$"),
    "products/comex/armci": re.compile(r"^mpi\.h$"),
}
# The only folder of src/backends that may include others: it selects one of them.
SELECTS = "backends/registry"


def read_layers(path):
    """folder: (the folders it may include, the folders that define what it declares)."""
    uses = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            folder, _, rest = line.partition(":")
            allowed, _, definers = rest.partition("@")
            uses[folder.strip()] = (allowed.split(), definers.split())
    return uses


def read_exceptions(root):
    path = root / "tools/system_headers.txt"
    if not path.exists():
        return set()
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {tuple(line.split()) for line in lines}


def kind_of(folder):
    return folder.split("/")[0]


def check_pair(folder, other):
    if kind_of(folder) == kind_of(other) == "products" and (folder, other) != (
        "products/poold",
        "products/pool",
    ):
        return f"the products {folder} and {other} must not include one another"
    if kind_of(folder) == kind_of(other) == "backends" and folder != SELECTS:
        return f"the backends {folder} and {other} must not include one another"
    return None


def check_list(uses):
    problems = []
    order = list(uses)
    for folder, (allowed, definers) in uses.items():
        for other in [*allowed, *definers]:
            if other not in uses:
                problems.append(f"cmake/layers.txt: {folder} names {other}, which is no folder")
        for other in allowed:
            if other in uses and order.index(other) >= order.index(folder):
                problems.append(
                    f"cmake/layers.txt: {folder} may use {other}, which is listed later"
                )
            problem = check_pair(folder, other)
            if problem:
                problems.append(f"cmake/layers.txt: {problem}")
    return problems


@functools.cache
def folder_of(root, path):
    """The folder of the list that a file belongs to, or None."""
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
    if name in BODIES:
        return BODIES[name]
    if name.startswith(DETAIL + "/"):
        return "device/" + name[len(DETAIL) + 1 :].split("/")[0]
    if name.startswith("kernel/"):
        return "/".join(name.split("/")[:2])
    if name.startswith("src/"):
        parts = name[len("src/") :].split("/")
        return parts[0] if parts[0] in ONE_LEVEL or len(parts) < 3 else "/".join(parts[:2])
    return None


class targets:
    """Which file of the tree an include names. Most names are found anew in file after file."""

    def __init__(self, root):
        self.root = root
        self.known = {}

    def find(self, path, name):
        """The file, or None."""
        key = (path.parent, name)
        if key not in self.known:
            self.known[key] = self.look(path.parent / name) or self.look_in_roots(name)
        return self.known[key]

    def look_in_roots(self, name):
        if name not in self.known:
            places = [self.root / "src" / name, self.root / "include" / name]
            if name.startswith("kernel/"):
                places.append(self.root / name)
            self.known[name] = next(filter(None, map(self.look, places)), None)
        return self.known[name]

    def look(self, place):
        if not place.is_file():
            return None
        real = place.resolve()
        return real if real.is_relative_to(self.root) else None


def is_test(path):
    return (
        path.name.endswith(("_test.cc", "_fixture.hpp", "testing.hpp")) or "testing" in path.parts
    )


def check_system(root, path, folder, name):
    """Whether a header that is not of the tree may be included here, as a problem or None."""
    if folder is None or "." not in name or FREE.match(name) or is_test(path):
        return None
    if folder.startswith(("backends/", "device/")):
        return None
    parts = path.parent.relative_to(root / "src").as_posix()
    if parts in IMPLEMENTS and IMPLEMENTS[parts].match(name):
        return None
    return f"<{name}> belongs in src/backends"


def check_target(root, uses, path, folder, name, target):
    other = folder_of(root, target)
    public = target.is_relative_to(root / "include")
    if folder is None:
        outside = other is not None and not public
        return (
            f'"{name}": public headers and examples include <tanada/...> only' if outside else None
        )
    if other is None:
        return None
    if folder not in uses or other not in uses:
        return f'"{name}": {other} is not in cmake/layers.txt' if other not in uses else None
    if other == folder or other in uses[folder][0]:
        return None
    if is_test(path) and (kind_of(other) != "products" or kind_of(folder) == "products"):
        return None
    return f'"{name}": {folder} may not use {other}'


def check_include(root, uses, path, folder, quote, name, target):
    """(problem or None, whether it is one about a system header)"""
    if target is not None:
        return check_target(root, uses, path, folder, name, target), False
    if quote == '"':
        return f'"{name}" is found nowhere', False
    return check_system(root, path, folder, name), True


def check_circles(edges):
    """Circles among folders, by what their files include."""
    problems = []
    done = set()

    def visit(folder, way):
        if folder in way:
            circle = [*way[way.index(folder) :], folder]
            problems.append("a circle of includes: " + " -> ".join(circle))
            return
        if folder in done:
            return
        for other in sorted(edges.get(folder, ())):
            visit(other, [*way, folder])
        done.add(folder)

    for folder in sorted(edges):
        visit(folder, [])
    return problems


def check_clock(path, folder, number, line):
    if folder is None or folder.startswith(("backends/", "device/")) or is_test(path):
        return None
    code = line.split("//")[0]
    return "a clock of the system belongs in src/backends" if SYSTEM_CLOCK.search(code) else None


def marked_lines(text):
    """(number, line) of those that may hold an include or a clock: few of all."""
    for number, line in enumerate(text.splitlines(), 1):
        if "include" in line or "clock" in line or "gettimeofday" in line:
            yield number, line


def check(root):
    uses = read_layers(root / "cmake/layers.txt")
    exceptions = read_exceptions(root)
    unused = set(exceptions)
    problems = check_list(uses)
    edges = {}
    found = targets(root)
    for path in tree.files(root, "src", "include", "examples", suffixes=tree.CODE):
        folder = folder_of(root, path)
        where = path.relative_to(root).as_posix()
        if folder is not None and folder not in uses:
            problems.append(f"{where}: {folder} is not in cmake/layers.txt")
            continue
        for number, line in marked_lines(path.read_text()):
            clock = check_clock(path, folder, number, line)
            if clock and (where, "clock") not in exceptions:
                problems.append(f"{where}:{number}: {clock}")
            if clock:
                unused.discard((where, "clock"))
            match = INCLUDE.match(line)
            if not match:
                continue
            target = found.find(path, match[2])
            problem, is_system = check_include(root, uses, path, folder, match[1], match[2], target)
            if problem and is_system and (where, match[2]) in exceptions:
                unused.discard((where, match[2]))
            elif problem:
                problems.append(f"{where}:{number}: {problem}")
            other = folder_of(root, target) if target else None
            if folder and other and other != folder and not is_test(path):
                edges.setdefault(folder, set()).add(other)
    for where, header in sorted(unused):
        problems.append(f"tools/system_headers.txt: {where} {header}: no longer needed")
    return problems + check_circles(edges)


if __name__ == "__main__":
    tree.run(__doc__, check)
