#!/usr/bin/env python3
"""Does every include respect cmake/layers.txt, and does only src/port speak to the outside world?"""

import re

import tree

PRODUCTS = {"gfile", "pool", "o2g", "comex", "shmem"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Headers of the world outside: sockets, io_uring, libfabric, CUDA's host API, launchers, file-system clients.
WORLD = re.compile(
    r"^(sys/(socket|un|epoll)\.h|netinet/.*|arpa/.*|netdb\.h|poll\.h|net/if\.h|liburing.*|rdma/.*|infiniband/.*"
    r"|cuda\.h|cuda_runtime.*\.h|driver_types\.h|cufile\.h|nvrtc\.h|nccl\.h|pmix.*\.h|mpi\.h"
    r"|gfarm/.*|glusterfs/.*|api/glfs.*)$"
)
WORLD_MODULES = {"port"}
# What implements an outside interface includes its headers: folder of src/ and which.
IMPLEMENTS = {
    "o2g/provider": re.compile(r"^rdma/.*$"),
    "comex/mpi": re.compile(r"^mpi\.h$"),
    "comex/armci": re.compile(r"^mpi\.h$"),
}


def read_layers(path):
    uses = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            module, _, allowed = line.partition(":")
            uses[module.strip()] = allowed.split()
    return uses


def check_list(uses):
    problems = []
    for module, allowed in uses.items():
        for other in allowed:
            if other not in uses:
                problems.append(f"cmake/layers.txt: {module} may use {other}, which is no module")
            elif list(uses).index(other) > list(uses).index(module):
                problems.append(
                    f"cmake/layers.txt: {module} may use {other}, which is listed later"
                )
            if module in PRODUCTS and other in PRODUCTS:
                problems.append(
                    f"cmake/layers.txt: the products {module} and {other} must not include one another"
                )
    return problems


def module_of(root, path):
    """The module of src/ that a file belongs to, or None."""
    try:
        return path.relative_to(root / "src").parts[0]
    except ValueError:
        return None


def target_module(root, path, name):
    """Which module an include names, either as "module/..." or relative to the file; None for anything else."""
    real = (path.parent / name).resolve()
    if real.is_file():
        return module_of(root, real)
    folder, slash, _ = name.partition("/")
    return folder if slash and (root / "src" / folder).is_dir() else None


def is_implemented(root, path, name):
    folder = path.parent.relative_to(root / "src").as_posix()
    return folder in IMPLEMENTS and IMPLEMENTS[folder].match(name) is not None


def check_include(root, uses, path, quote, name):
    module = module_of(root, path)
    is_test = path.name.endswith("_test.cc")
    if WORLD.match(name):
        is_free = (
            not module or module in WORLD_MODULES or is_test or is_implemented(root, path, name)
        )
        return None if is_free else f"<{name}> belongs in src/port"
    if name.startswith("tanada/"):
        return None
    target = target_module(root, path, name)
    if target is None:
        return (
            f'"{name}" is found nowhere'
            if quote == '"' and not (path.parent / name).is_file()
            else None
        )
    if module is None:
        return (
            f'"{name}": public headers and examples include <tanada/...> only'
            if quote == '"'
            else None
        )
    if target not in uses:
        return f'"{name}": {target} is not in cmake/layers.txt'
    if target == module or target in uses.get(module, []) or (target == "sim" and is_test):
        return None
    return f'"{name}": {module} may not use {target}'


def check(root):
    uses = read_layers(root / "cmake/layers.txt")
    problems = check_list(uses)
    for path in tree.files(root, "src", "include", "examples", suffixes=tree.CODE):
        module = module_of(root, path)
        if module is not None and module not in uses:
            problems.append(f"{path.relative_to(root)}: {module} is not in cmake/layers.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            # The device API's public headers reach their bodies through device/impl.
            if not match or (
                path.is_relative_to(root / "include/tanada/device") and match[2].startswith("impl/")
            ):
                continue
            problem = check_include(root, uses, path, match[1], match[2])
            if problem:
                problems.append(f"{path.relative_to(root)}:{number}: {problem}")
    return problems


if __name__ == "__main__":
    tree.run(__doc__, check)
