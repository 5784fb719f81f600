#!/usr/bin/env python3
"""Does clang-tidy find no fault in the lowest modules, and is no function more complex than listed?

usage: tools/check_tidy.py [MODULE ...], after a build with the preset clang. The whole tree would
take an hour on two cores, so tests are left out, too. tools/complexity.txt lists the functions
above the threshold of .clang-tidy with their complexities. A listed number may only fall: --lower
writes lower ones.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

import check_format
import tree

MODULES = ("core", "seams", "backends", "rpc")
LIST = "tools/complexity.txt"
FINDING = re.compile(
    r"^(?P<path>/.+?):(?P<line>\d+):\d+: (?:warning|error): (?P<what>.*) \[(?P<check>[\w.,-]+)\]$",
    re.MULTILINE,
)
TEST = re.compile(r"_test\.cc$|/testing/")
COMPLEXITY = "readability-function-cognitive-complexity"
FUNCTION = re.compile(r"function '(?P<name>.*)' has cognitive complexity of (?P<number>\d+)")


def in_modules(path, modules):
    return path.startswith(tuple(f"src/{module}/" for module in modules))


def sources(root, build, modules):
    """The sources of the modules that the build compiles, each once, without tests."""
    folders = tuple(f"{root}/src/{module}/" for module in modules)
    commands = json.loads((build / "compile_commands.json").read_text())
    paths = {each["file"] for each in commands if each["file"].startswith(folders)}
    return sorted(path for path in paths if not TEST.search(path))


def run(root, build, modules, path):
    """What clang-tidy prints about one source and the modules' headers that it includes."""
    command = [
        check_format.tool("clang-tidy"),
        "--quiet",
        f"-p={build}",
        f"--header-filter=^{root}/(src/({'|'.join(modules)})|include/tanada)/",
        "--extra-arg=-Wno-unknown-warning-option",
        path,
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0 and not FINDING.search(done.stdout):
        raise SystemExit(f"check_tidy: clang-tidy failed on {path}: {done.stderr.strip()[:500]}")
    return done.stdout


def findings(root, modules, output):
    """(path:line: what) of each fault, and {"path function": complexities, the highest first}."""
    faults, complexities = set(), {}
    for match in FINDING.finditer(output):
        path = os.path.relpath(os.path.normpath(match["path"]), root)
        if not in_modules(path, modules) and not path.startswith("include/"):
            continue
        if match["check"] != COMPLEXITY:
            faults.add(f"{path}:{match['line']}: {match['what']} [{match['check']}]")
            continue
        function = FUNCTION.match(match["what"])
        entry = complexities.setdefault(f"{path} {function['name']}", {})
        entry[match["line"]] = int(function["number"])  # a header is seen by many sources
    return sorted(faults), {
        name: sorted(entry.values(), reverse=True) for name, entry in complexities.items()
    }


def read_list(path):
    """{"path function": complexities} of the lines "path function: number number ..."."""
    listed = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, numbers = line.rpartition(": ")
            listed[name] = [int(number) for number in numbers.split()]
    return listed


def compare(found, listed, modules):
    """What the functions found have that the list has not, and the other way round."""
    for name in sorted(found.keys() | listed.keys()):
        if not in_modules(name, modules):
            continue
        now, before = found.get(name, []), listed.get(name, [])
        if now == before:
            continue
        if len(now) <= len(before) and all(a <= b for a, b in zip(now, before)):
            yield f"{name} is simpler than {LIST} lists: tools/check_tidy.py --lower"
        else:
            yield f"{name} has a cognitive complexity of {max(now)}: make it simpler"


def lowered(found, listed, modules):
    """The list with what is simpler now; nothing rises."""
    result = {}
    for name, before in listed.items():
        now = found.get(name, []) if in_modules(name, modules) else before
        numbers = [min(a, b) for a, b in zip(now, before)]
        if numbers:
            result[name] = numbers
    return result


def write_list(path, listed):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name}: {' '.join(map(str, listed[name]))}" for name in sorted(listed)]
    path.write_text("\n".join(head + lines) + "\n")


def check(root, build, modules=MODULES, jobs=None, lower=False):
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        paths = sources(root, build, modules)
        output = "".join(pool.map(lambda path: run(root, build, modules, path), paths))
    faults, found = findings(root, modules, output)
    listed = read_list(root / LIST)
    if lower:
        listed = lowered(found, listed, modules)
        write_list(root / LIST, listed)
    return faults + list(compare(found, listed, modules))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES, help="folders of src")
    parser.add_argument("--build", default="build/clang", help="where compile_commands.json is")
    parser.add_argument("--lower", action="store_true", help=f"lower numbers of {LIST}")
    parser.add_argument("--jobs", type=int, help="processes at a time; one a processor")
    arguments = parser.parse_args()
    problems = check(
        tree.ROOT,
        tree.ROOT / arguments.build,
        tuple(arguments.modules),
        arguments.jobs,
        arguments.lower,
    )
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
