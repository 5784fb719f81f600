#!/usr/bin/env python3
"""How the cost of collective operations grows with the number of PEs: measured on this machine, and
simulated for larger ones.

usage: scale.py [--ours FOLDER] [--model PROGRAM] [--pes 2,4,...] [--rounds N] [--timeout SECONDS]
                [--measured FILE] [--json FILE]

Measures barrier, reduce and alltoall by shared memory ("node"), by TCP between PEs that share no
memory ("tcp"), and on four pretended nodes ("4 nodes"). Fits the costs of shmem_scale_model to half
of these rows, and compares the other half with it. Then simulates clusters with these costs, and
with those of a network that is assumed (NETWORK). --measured takes the measured rows from a file
that an earlier run wrote. Prints a table, and JSON to FILE, or after the table if there is no FILE.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import implementations  # noqa: E402
import processes  # noqa: E402
import results as figures  # noqa: E402
from machine import header  # noqa: E402

NODE_COUNT = 4  # pretended nodes of the two-level rows
NETWORK_PES_MAX = 64  # each PE has a connection with buffers to each other one: some GB in all
CARRIERS = {
    "node": {},
    "tcp": {"TND_PGAS_NODE": "none", "TND_PGAS_FABRIC": "tcp;ofi_rxm"},
    "4 nodes": {"TND_PGAS_FABRIC": "tcp;ofi_rxm"},
}
# Assigns PEs to pretended nodes in blocks.
IN_BLOCKS = f"""#!/bin/sh
rank=${{PMIX_RANK:-${{OMPI_COMM_WORLD_RANK:-0}}}}
export TND_PGAS_NODE=node$((rank * {NODE_COUNT} / SCALE_PES))
exec "$@"
"""
OPERATIONS = ("barrier", "reduce 8 B", "reduce 1024 B", "alltoall 8 B", "alltoall 1024 B")
# The costs that are fitted to the rows of each carrier, in this order, where the search begins, and
# the most that it may come to: microseconds, or microseconds a byte.
MEMORY_COSTS = {"call": 0.2, "line": 0.1, "wake": 1, "resume": 2, "read": 0.05, "copy": 0.0003}
NETWORK_COSTS = {"send": 10, "receive": 10, "crowd": 80, "latency": 5, "byte_work": 0.001}
# A cluster whose nodes have a processor for each PE. The costs in memory are the fitted ones.
PES_PER_NODE = 128
CLUSTER = {"processors": PES_PER_NODE}
# Of current network cards: 0.3 us of a processor a message, 1.5 us, and 25 GB/s a node.
NETWORK = {"send": 0.3, "receive": 0.3, "latency": 1.5, "byte": 0.00004, "byte_work": 0}
CLUSTER_PES = (128, 512, 2048, 8192, 32768, 100_000)
SEARCH_ROUNDS = 25


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ours", default=str(ROOT / "build/release"))
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--pes", default="2,4,8,16,32,64,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--measured", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Model:
    """The program shmem_scale_model."""

    def __init__(self, program):
        self.program = str(program)

    def ask(self, costs, questions):
        """The two numbers that it prints for each question."""
        if not questions:
            return []
        done = subprocess.run(
            [self.program, *(f"{name}={value:.9g}" for name, value in costs.items())],
            input="\n".join(questions) + "\n",
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"{self.program}: {done.stderr.strip()}")
        return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]

    def means(self, costs, keys):
        """The mean time of a call, as the program of the measured rows takes it."""
        return [mean for _, mean in self.ask(costs, [question(key, 1, 3) for key in keys])]


def question(key, hosts, repeats, nodes=None):
    carrier, pes, operation = key
    name, _, size = operation.partition(" ")
    if nodes is None:
        nodes = {"node": 1, "tcp": pes, "4 nodes": min(NODE_COUNT, pes)}[carrier]
    return f"{name} {size.split()[0] if size else 0} {pes} {nodes} {hosts} {repeats}"


def measure(wanted):
    """{(carrier, PEs, operation): us}: the shortest of the rounds, for others may be at work."""
    found = {}
    setup = next(iter(implementations.ours(wanted.ours)))
    with tempfile.TemporaryDirectory(prefix="tnd-bench-scale-") as folder:
        program = pathlib.Path(folder, "scale")
        source = HERE / "programs/scale.c"
        subprocess.run(setup.library.compile(source, program), check=True, timeout=120)
        wrapper = pathlib.Path(folder, "in_blocks.sh")
        wrapper.write_text(IN_BLOCKS)
        wrapper.chmod(0o755)
        for carrier, settings in CARRIERS.items():
            for pes in (int(word) for word in wanted.pes.split(",")):
                if carrier == "4 nodes" and pes <= NODE_COUNT:
                    continue
                if carrier != "node" and pes > NETWORK_PES_MAX:
                    continue
                environment = {
                    **setup.all_environment(),
                    **settings,
                    "SHMEM_SYMMETRIC_SIZE": "8M",
                    "SCALE_PES": str(pes),
                }
                words = [str(wrapper), str(program)] if carrier == "4 nodes" else [str(program)]
                command = [setup.library.launcher, "-n", str(pes), *words]
                for _ in range(wanted.rounds):
                    outcome = processes.run(command, environment, wanted.timeout)
                    for what, (value, _) in figures.figures_of(outcome.output).items():
                        key = (carrier, pes, what)
                        found[key] = min(value, found.get(key, math.inf))
                    if outcome.status != "passed":
                        last = figures.last_words(outcome.output)
                        print(f"{carrier}, {pes} PEs: {outcome.status}: {last}", file=sys.stderr)
                        break
    return found


def measured_before(path):
    """The same from the JSON of an earlier run."""
    rows = json.loads(path.read_text())["rows"]
    return {tuple(row["key"]): row["value"] for row in rows if row.get("key")}


def error(measured, modelled):
    """By which factor they differ, less one."""
    return math.exp(abs(math.log(measured / modelled))) - 1


def is_held_out(pes):
    """Every other number of PEs is kept for the comparison."""
    return pes.bit_length() % 2 == 1


def fit(model, costs, names, measured, carrier):
    """Improves one cost after the other by factors that become smaller."""
    keys = [key for key in measured if key[0] == carrier and not is_held_out(key[1])]
    if not keys:
        return costs

    def loss(trial):
        means = model.means(trial, keys)
        return statistics.mean(math.log(measured[k] / m) ** 2 for k, m in zip(keys, means))

    best, factor = loss(costs), 4.0
    for _ in range(SEARCH_ROUNDS):
        before = best
        for name in names:
            for change in (factor, 1 / factor):
                trial = {**costs, name: costs[name] * change}
                value = loss(trial)
                if value < best:
                    best, costs = value, trial
        if before - best < 0.01 * before:
            factor = 1 + (factor - 1) / 2
        if factor < 1.03:
            break
    return costs


def row(what, value, rival=None, rival_value=None, **more):
    ratio = float(f"{value / rival_value:.4g}") if rival_value else None
    return {
        "what": what,
        "value": float(f"{value:.4g}"),
        "unit": more.pop("unit", "us"),
        "rival": rival,
        "rival_value": float(f"{rival_value:.4g}") if rival_value else None,
        "ratio": ratio,
        "bar": None,
        "better": "lower",
        "met": None,
        **more,
    }


def measured_rows(model, measured, costs):
    """Each measured row with the model's time, and the errors of the rows held out."""
    errors = {}
    for carrier, values in costs.items():
        keys = [key for key in measured if key[0] == carrier]
        for key, mean in zip(keys, model.means(values, keys)):
            _, pes, operation = key
            is_fitted = carrier != "4 nodes" and not is_held_out(pes)
            part = "fitted" if is_fitted else "held out"
            errors.setdefault((carrier, part), []).append(error(measured[key], mean))
            yield row(
                f"{operation}, {pes} PEs, {carrier}",
                measured[key],
                f"the model, {part}",
                mean,
                key=list(key),
            )
    for (carrier, part), values in errors.items():
        median = 100 * statistics.median(values)
        yield row(f"error of the model, {carrier}, {part}: median", median, unit="%")
        yield row(f"error of the model, {carrier}, {part}: largest", 100 * max(values), unit="%")


def cluster_rows(model, title, costs):
    """Simulated: two levels, and one level as if no PEs shared a node."""
    for operation in OPERATIONS:
        for pes in CLUSTER_PES:
            nodes = -(-pes // PES_PER_NODE)
            key = ("", pes, operation)
            levels, flat = model.ask(
                costs, [question(key, nodes, 0, nodes), question(key, nodes, 0, pes)]
            )
            yield row(
                f"{operation}, {pes} PEs, {title}: simulated",
                levels[0],
                "as if no PEs shared a node",
                flat[0],
            )


def memory_rows(model):
    for pes in (2, *CLUSTER_PES):
        ((team, total),) = model.ask({}, [f"memory {pes}"])
        yield row(f"control memory of a PE, {pes} PEs", total / 2**20, unit="MiB")
    yield row("control memory of a PE for each team", team / 1024, unit="KiB")


def main():
    wanted = options()
    program = wanted.model or pathlib.Path(wanted.ours) / "bin/shmem_scale_model"
    model = Model(program)
    result = {**header("shmem_scale"), "rows": []}
    measured = measured_before(wanted.measured) if wanted.measured else measure(wanted)
    memory = fit(model, dict(MEMORY_COSTS), MEMORY_COSTS, measured, "node")
    # PEs that wait for the network sleep otherwise than those that wait for memory.
    names = (*NETWORK_COSTS, "resume")
    tcp = fit(model, {**memory, **NETWORK_COSTS}, names, measured, "tcp")
    result["note"] = (
        "Fitted costs: "
        + ", ".join(
            f"{name} {value * (1000 if name in ('copy', 'byte_work') else 1):.3g} "
            + ("ns a byte" if name in ("copy", "byte_work") else "us")
            for name, value in tcp.items()
        )
        + "."
    )
    rows = [*measured_rows(model, measured, {"node": memory, "tcp": tcp, "4 nodes": tcp})]
    rows += cluster_rows(model, "TCP", {**tcp, **CLUSTER})
    rows += cluster_rows(model, "assumed network", {**tcp, **CLUSTER, **NETWORK})
    rows += memory_rows(model)
    result["rows"] = rows
    for each in rows:
        figures.print_short(each)
    if wanted.json:
        wanted.json.write_text(json.dumps(result, indent=1) + "\n")
    else:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
