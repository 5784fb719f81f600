#!/usr/bin/env python3
"""The receiver in the kernel, in the library and by select, against Open MPI's own transport over
TCP: figure 5 of the paper, and what a message costs. Runs in a guest that tools/driver/bench.sh
starts, as root.

usage: driver.py [--rows npb,receiver,calls,overlap,match,sockets | delays]
                 [--transports WORD,...] [--mpi openmpi4] [--classes S,W]
                 [--benchmarks IS,CG,LU.S,...] [--rounds N] [--quick] [--provider FOLDER]
                 [--npb FOLDER] [--cost PROGRAM] [--programs FOLDER] [--build] [--delays WORD]
                 [--json FILE] [--append]

Transports are all of one MPI. "o2g driver": the provider with o2g.ko; "o2g library": the same
provider, receiving in the process on arrival; "o2g select": the same, receiving in calls by select,
without a thread; "Open MPI tcp": its own transport; "MPICH tcp": another MPI, only for delays.
--transports keeps those whose name contains one of the words. --build builds all programs in the
folder of --programs, and writes the machine's name there, for a guest that sees only the folder.
The transports alternate in every round. --delays keeps those whose title has the word. --append
keeps the rows that FILE has. A transport that cannot run is left out with the reason.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "tools/mpi")]

import link as links  # noqa: E402
import npb  # noqa: E402
import o2g  # noqa: E402
import processes  # noqa: E402
import runs  # noqa: E402
import setups as known  # noqa: E402
import syscalls  # noqa: E402
from machine import header, machine  # noqa: E402
from runs import Experiment, Figure  # noqa: E402

DRIVER = "o2g driver"
RIVAL = "Open MPI tcp"
RANKS = 4
LIMIT = 900  # seconds of a run: a guest may be slow
MODULE_USERS = pathlib.Path("/sys/module/o2g/refcnt")
COST_SOCKETS = "1,16,64,256,1000"
NOTE = (
    "All transports ran in the same guest, in turns. "
    "Times of a guest compare with each other only. "
    "`Mop/s` are the benchmark's own, as in the paper's figure 5, and a ratio is relative to Open "
    "MPI's own transport over TCP."
)
UML_NOTE = (
    "On one processor no computing runs beside the protocol handler: "
    "what a transport hides is time in which the processor would be idle, and a rank that polls "
    "takes time from the others. User-Mode Linux counts CPU time in steps of 10 ms."
)
VM_NOTE = (
    "QEMU translates the guest's instructions, so its processors compute some ten times slower "
    "than those of the host."
)


class Transport(known.Setup):
    """A set-up with a name of its own."""

    @property
    def name(self):
        return self.carrier


@dataclasses.dataclass(frozen=True)
class Way:
    """A transport: the carrier of setups.py, and what its environment adds."""

    name: str
    carrier: str
    environment: dict = dataclasses.field(default_factory=dict)


WAYS = (
    Way(DRIVER, "o2g", {"TND_O2G_DRIVER": "required"}),
    Way("o2g library", "o2g", {"TND_O2G_DRIVER": "off"}),
    Way("o2g select", "o2g", {"TND_O2G_DRIVER": "off", "TND_O2G_RECEIVE": "select"}),
    Way(RIVAL, "btl tcp"),
)
MPICH = Way("MPICH tcp", "ofi tcp")


def transport(way, mpi_name, provider):
    """The transport of a way under an MPI."""
    for setup in known.setups(provider):
        if setup.mpi.name == mpi_name and setup.carrier == way.carrier:
            options = setup.options
            if way.carrier == "o2g":
                # No window is used: a second endpoint for them would receive, too.
                options = tuple("self" if word == "ofi,self" else word for word in options)
            return Transport(
                setup.mpi,
                way.name,
                options,
                {**setup.environment, **way.environment},
                setup.provider,
            )
    raise KeyError(f"{mpi_name} {way.carrier}")


def is_driver_used(setup, folder):
    """Whether ranks of the set-up open /dev/o2g. A provider that knows no driver ignores the
    setting that requires it, and its figures would be those of the library."""
    if not MODULE_USERS.exists():
        return False
    command = setup.launch(2, o2g.program_of(setup, "idle", folder), "3")
    with subprocess.Popen(
        [str(word) for word in command],
        env=setup.all_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        is_used = False
        while process.poll() is None and not is_used:
            is_used = int(MODULE_USERS.read_text()) > 0
            time.sleep(0.05)
        process.wait(timeout=LIMIT)
    return is_used


def chosen(wanted, ways, folder):
    """The transports that were requested and can run; the others are reported on stderr."""
    words = [word for word in wanted.transports.split(",") if word]
    found = []
    for way in ways:
        if words and not any(word in way.name for word in words):
            continue
        setup = transport(way, "mpich5" if way is MPICH else wanted.mpi, wanted.provider)
        reason = setup.missing()
        if not reason and not wanted.build and "driver" in way.name:
            if not is_driver_used(setup, folder):
                reason = (
                    "no rank opens /dev/o2g: the module is not loaded, or the provider has no use "
                    "for it"
                )
        if reason:
            print(f"bench: {way.name} is left out: {reason}", file=sys.stderr)
        else:
            found.append(setup)
    return found


def row_of(what, unit, better, values, name, bar=None, **more):
    """The row of a transport against the rival. `values` has the value of each transport. `bar` is
    of the driver's value."""
    value = values[name] if isinstance(values[name], float) else None
    rival_value = values.get(RIVAL)
    has_rival = name != RIVAL and isinstance(rival_value, float)
    ratio = None
    if has_rival and value is not None and value > 0 and rival_value > 0:
        ratio = float(f"{value / rival_value:.4g}")
    bar = bar if name == DRIVER else None
    is_met = None
    if bar is not None:
        is_met = value is not None and (value >= bar if better == "higher" else value <= bar)
    return {
        "what": f"{what}: {name}",
        "value": value,
        "unit": unit,
        "by": name,
        "rival": RIVAL if has_rival else None,
        "rival_value": rival_value if has_rival else None,
        "ratio": ratio,
        "bar": bar,
        "bar_on": "value",
        "better": better,
        "met": is_met,
        "setups": values,
        **more,
    }


def measure(experiment, setups, rounds, launch):
    """One row for each figure and transport. `rounds` of a row has the figures of all rounds."""
    results = runs.run_rounds(experiment, setups, rounds, launch)
    for figure in experiment.figures:
        values = {each.name: results.value(each, figure) for each in setups}
        for setup in setups:
            all_rounds = results.figures.get(setup.name, {}).get(figure.name, [])
            yield row_of(
                figure.what,
                figure.unit,
                figure.better,
                values,
                setup.name,
                bar=figure.bar,
                rounds=[float(f"{value * figure.scale:.4g}") for value in all_rounds],
            )


def benchmarks_of(wanted, class_name):
    """`LU.S` is a benchmark of one class, `LU` one of every class."""
    for word in wanted.benchmarks.split(","):
        benchmark, _, only = word.partition(".")
        if only in ("", class_name):
            yield benchmark


def npb_rows(wanted, setups, folder):
    for class_name in wanted.classes.split(","):
        for benchmark in benchmarks_of(wanted, class_name):
            experiment, launch = npb.experiment(wanted.npb, folder, benchmark, class_name, RANKS)
            name = f"NPB {benchmark}.{class_name}, {RANKS} ranks"
            figures = (
                Figure("mops", name, "Mop/s", 1, "higher"),
                Figure("seconds", f"{name}, time", "s"),
            )
            experiment = dataclasses.replace(experiment, figures=figures, timeout_s=LIMIT)
            yield from measure(experiment, setups, wanted.rounds, launch)


def receiver_experiments(quick):
    count, seconds = (200, 1) if quick else (1000, 2)
    what = f"{count} x 64 B"
    yield Experiment(
        "arrival",
        "arrival",
        (str(count), "64", str(seconds)),
        (
            Figure("idle_cpu", f"{what}, receiver asleep: CPU time a message", "us", 1e6),
            Figure("idle_switches", f"{what}, receiver asleep: switches a message", ""),
            Figure("idle_late", f"{what}, receiver asleep: MPI_Waitall after it", "ms", 1e3),
            Figure("computing_cpu", f"{what}, receiver computes: CPU time a message", "us", 1e6),
            Figure("computing_switches", f"{what}, receiver computes: switches a message", ""),
            Figure("computing_late", f"{what}, receiver computes: MPI_Waitall after it", "ms", 1e3),
            Figure("slower", f"{what}, receiver computes: time of computing", "x"),
            Figure("waiting_cpu", f"{what}, MPI_Waitall: CPU time a message", "us", 1e6),
            Figure(
                "waiting_switches",
                f"{what}, MPI_Waitall: switches a message",
                "",
            ),
        ),
        timeout_s=LIMIT,
    )
    yield Experiment(
        "idle",
        "idle",
        ("2" if quick else "5",),
        (
            Figure("asleep", f"{RANKS} ranks asleep, no message: CPU time", "s"),
            Figure("blocked", f"{RANKS} ranks, 3 of them in MPI_Recv: CPU time of all", "s"),
        ),
        ranks=RANKS,
        timeout_s=LIMIT,
    )


def overlap_experiment(quick):
    """The sockets' buffers hold up to 10 MiB, which would hide the transfer of a smaller message
    with any receiver. The link is so slow that its transfer takes little of the one processor.
    """
    size = "16 MiB over 200 Mb/s"
    return Experiment(
        "overlap",
        "overlap",
        (str(16 << 20), "1", "1" if quick else "3"),
        (
            Figure(
                "posted", f"{size}, computing after MPI_Irecv: hidden", "part", 1, "higher", 0.95
            ),
            Figure("sender", f"{size}, the sender computes: hidden", "part", 1, "higher", 0.95),
            Figure(
                "late", f"{size}, receive posted after computing: hidden", "part", 1, "higher", 0.95
            ),
            Figure("slower", f"{size}: time of computing", "x"),
            Figure("plain", f"{size}: the transfer only", "ms", 1e3),
        ),
        over_link=True,
        timeout_s=LIMIT,
    )


def match_experiment(quick):
    count = 1000 if quick else 10000
    return Experiment(
        "match",
        "match",
        (str(count), "1"),
        (
            Figure(
                "unexpected",
                f"{count} x 64 B, unexpected, received in reverse order",
                "us each",
                1e6,
            ),
            Figure("posted", f"{count} x 64 B, posted before in reverse order", "us each", 1e6),
            Figure("wildcard", f"{count} x 64 B, in order with wildcards", "us each", 1e6),
            Figure("peak_mib", f"{count} x 64 B: peak memory of the receiver", "MiB"),
        ),
        timeout_s=LIMIT,
    )


def ring_experiment(quick):
    return Experiment(
        "ring",
        "ring",
        (str(1 << 20), "3" if quick else "10"),
        (Figure("step", f"ring of {RANKS} ranks, 1 MiB each", "ms", 1e3),),
        ranks=RANKS,
        timeout_s=LIMIT,
    )


def call_count(value, kinds):
    """System calls of these kinds a message, or a word with the reason why there is no figure."""
    if isinstance(value, str):
        return value
    count = sum(value[kind] for kind in kinds)
    # The start and the end of a program poll as long as they have to wait.
    return float(f"{count:.4g}") if count >= 0 else "less than the noise of the polls"


def call_rows(wanted, setups, folder):
    """System calls for each message of both ranks, counted by strace."""
    share = 10 if wanted.quick else 2
    for work in syscalls.WORKS:
        few = max(64, work.few // share)
        work = dataclasses.replace(work, few=few, many=few + (work.many - work.few) // (2 * share))
        values = {
            each.name: syscalls.measure(each, work, folder, syscalls.STRACE, LIMIT)
            for each in setups
        }
        for kinds, what in ((("all",), "all"), (("sends", "receives"), "with bytes")):
            counts = {name: call_count(value, kinds) for name, value in values.items()}
            for name in counts:
                yield row_of(
                    f"{work.name}: system calls a message, {what}",
                    "",
                    "lower",
                    counts,
                    name,
                    details=values[name],
                )


def socket_rows(wanted, folder):
    """The rows of bench_o2g_cost, which needs no MPI."""
    target = folder / "cost.json"
    done = processes.run(
        [
            wanted.cost,
            "--sockets",
            COST_SOCKETS,
            "--rounds",
            str(wanted.rounds),
            "--json",
            target,
        ],
        dict(os.environ),
        4 * LIMIT,
    )
    if done.status != "passed":
        print(
            f"bench: {wanted.cost} {done.status}: {runs.last_words(done.output)}", file=sys.stderr
        )
        return
    for row in json.loads(target.read_text())["rows"]:
        yield {**row, "what": f"a message of 64 B: {row['what']}", "bar": None, "met": None}


@contextlib.contextmanager
def delayed(words):
    """Loopback with a delay and loss in each direction, in packets of Ethernet's size: its own, of
    64 KiB, would be lost as a whole."""

    def call(*command):
        subprocess.run(command, check=True, timeout=60)

    before = json.loads(subprocess.check_output(["ip", "-j", "link", "show", "lo"]))[0]
    call("ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "1")
    if words:
        call("tc", "qdisc", "add", "dev", "lo", "root", "netem", "limit", "100000", *words)
    try:
        yield
    finally:
        if words:
            call("tc", "qdisc", "del", "dev", "lo", "root")
        call("ip", "link", "set", "lo", "mtu", str(before["mtu"]), "gso_max_segs", "65535")


DELAYS = (
    ("no delay", ()),
    ("1 ms", ("delay", "1ms")),
    ("10 ms", ("delay", "10ms")),
    ("50 ms", ("delay", "50ms")),
    ("1 ms, 0.1 % loss", ("delay", "1ms", "loss", "0.1%")),
)


def delay_rows(wanted, setups, folder):
    ring = ring_experiment(wanted.quick)
    for title, words in DELAYS[::4] if wanted.quick else DELAYS:
        if wanted.delays not in title:
            continue
        with delayed(words):
            for class_name in wanted.classes.split(","):
                experiment, launch = npb.experiment(wanted.npb, folder, "IS", class_name, RANKS)
                what = f"NPB IS.{class_name}, {RANKS} ranks, {title}"
                experiment = dataclasses.replace(
                    experiment,
                    figures=(
                        Figure("mops", what, "Mop/s", 1, "higher"),
                        Figure("seconds", f"{what}, time", "s"),
                    ),
                    timeout_s=LIMIT,
                )
                yield from measure(experiment, setups, wanted.rounds, launch)
            figures = tuple(
                dataclasses.replace(each, what=f"{each.what}, {title}") for each in ring.figures
            )
            yield from measure(
                dataclasses.replace(ring, figures=figures),
                setups,
                wanted.rounds,
                o2g.launcher(ring, folder, None),
            )


def experiment_rows(experiments, wanted, setups, folder):
    for experiment in experiments:
        if not experiment.over_link:
            yield from measure(
                experiment, setups, wanted.rounds, o2g.launcher(experiment, folder, None)
            )
            continue
        with links.Link(megabits=200) as link:
            yield from measure(
                experiment, setups, wanted.rounds, o2g.launcher(experiment, folder, link)
            )


def rows_of(name, wanted, setups, folder):
    quick = wanted.quick
    if name == "npb":
        return npb_rows(wanted, setups, folder)
    if name == "calls":
        return call_rows(wanted, setups, folder)
    if name == "sockets":
        return socket_rows(wanted, folder)
    if name == "delays":
        return delay_rows(wanted, setups, folder)
    experiments = {
        "receiver": receiver_experiments(quick),
        "overlap": [overlap_experiment(quick)],
        "match": [match_experiment(quick)],
    }
    return experiment_rows(experiments[name], wanted, setups, folder)


def remove_stale(folder):
    """Removes programs that are older than a source."""
    changed = max(path.stat().st_mtime for path in o2g.PROGRAMS.iterdir())
    for path in folder.iterdir():
        if path.is_file() and path.stat().st_mtime < changed:
            path.unlink()


def build(wanted, setups, folder):
    """Builds every program, and runs none."""
    remove_stale(folder)
    for setup in setups:
        for name in ("arrival", "calls", "idle", "match", "overlap", "ring"):
            o2g.program_of(setup, name, folder)
        for class_name in wanted.classes.split(","):
            benchmarks = list(benchmarks_of(wanted, class_name))
            for benchmark in benchmarks if setup.name != MPICH.name else ["IS"]:
                npb.program(wanted.npb, folder, setup.mpi, benchmark, class_name)
    (folder / "host").write_text(machine())


def is_uml():
    return "User Mode Linux" in pathlib.Path("/proc/cpuinfo").read_text()


def guest_machine(folder):
    """The host, and the guest in it."""
    host = (folder / "host").read_text() if (folder / "host").exists() else machine()
    kind = "User-Mode Linux" if is_uml() else "QEMU, Linux"
    return f"{kind} {platform.release()} with {os.cpu_count()} processor(s) as a guest of: {host}"


def host_load(folder):
    """A sentence on the other work of the host, which a guest cannot see."""
    path = folder / "load"
    load = float(path.read_text().split()[0]) if path.exists() else os.getloadavg()[0]
    return f"The load average of the host was {load:.1f} before the run."


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="npb,receiver,calls,overlap,match,sockets")
    parser.add_argument("--transports", default="")
    parser.add_argument("--mpi", default="openmpi4")
    parser.add_argument("--classes", default="S,W")
    parser.add_argument("--benchmarks", default=",".join(npb.BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--provider", type=pathlib.Path, default=known.PROVIDER)
    parser.add_argument("--npb", type=pathlib.Path)
    parser.add_argument("--cost", type=pathlib.Path, default=ROOT / "build/dev/bin/bench_o2g_cost")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--delays", default="")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--append", action="store_true")
    return parser.parse_args()


def selection(wanted):
    """The options that select rows."""
    words = [f"--rows {wanted.rows}", f"--classes {wanted.classes}"]
    words += [f"--benchmarks {wanted.benchmarks}"] if "npb" in wanted.rows else []
    words += [f"--delays {wanted.delays}"] if wanted.delays else []
    return " ".join([*words, f"--rounds {wanted.rounds}"])


def print_row(row):
    value, ratio = runs.shown(row["value"]), runs.shown(row["ratio"])
    print(f"{row['what']:90} {value:>9} {row['unit']:7} {ratio:>7}", flush=True)


def main():
    wanted = options()
    names = wanted.rows.split(",")
    ways = WAYS + ((MPICH,) if "delays" in names or wanted.build else ())
    with o2g.program_folder(wanted) as folder:
        setups = chosen(wanted, ways, folder)
        if wanted.build:
            build(wanted, setups, folder)
            return
        bench = "o2g_driver_delays" if names == ["delays"] else "o2g_driver"
        result = {
            **header(bench),
            "command": f"driver.py {selection(wanted)}",
            "machine": guest_machine(folder),
            "note": f"{NOTE} {UML_NOTE if is_uml() else VM_NOTE} {host_load(folder)}",
            "rows": [],
        }
        if wanted.append and wanted.json.exists():
            before = json.loads(wanted.json.read_text())
            parts = before.get("parts", [before["command"]])
            result["parts"] = [*parts, result["command"]]
            result["command"] = before["command"]
            result["rows"] = before["rows"]
        for name in names:
            for row in rows_of(name, wanted, setups, folder):
                print_row(row)
                result["rows"].append(row)
                # Written after each row, so that an aborted run keeps its rows.
                if wanted.json:
                    wanted.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
