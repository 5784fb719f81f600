#!/usr/bin/env python3
"""Everything that can happen to a real cluster, while clients use it and check what they see.

usage: cluster_faults.py [--kills N] [--minutes M] [--faults NAME[,NAME...]] [--json FILE] ...

Three servers, each in a network namespace of its own, and three members of etcd. Each round kills
every server and every member of etcd once, alone or a server and a member together. Every
--others-every rounds one of the other faults follows. Four clients that change objects and four
that read them record all calls. What must hold:

- The history of every name is linearizable, so that nothing acknowledged is lost and nothing is
  old. Every object is whole, and versions grow.
- Every failure has a status that the API documents for the call.
- No client waits longer for its next answer than some leases, and an election of etcd if one of its
  members is killed with a server, except while etcd has no majority, or two servers with leases do
  not reach each other.
- After each fault, the cluster is whole again within --limit seconds, and no server ends by itself.

Needs root, for the network namespaces, etcd and iproute2. Exits with 77 where one of them is
missing, and with 1 where something does not hold.
"""

import argparse
import collections
import errno
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("tests/e2e/pool", "tests/fixtures", "bench/common")
]
from machine import header  # noqa: E402
from network import Network, NetworkError, isolate  # noqa: E402
from networked_cluster import Cluster, FaultError, Load, etcd  # noqa: E402

SKIPPED = 77
FAILED = 1
PROGRESS_S = 60
CHECK_LIMIT_S = 400
# Until another server serves what one did, and clients have noticed that.
SERVICE_LEASES = 4
# The same for short leases: clients ask other servers every 2 s, and wait 1 s for a connection.
SHORT_LEASES, CLIENT_S = 2, 8
# No lease ends before etcd has another leader.
ELECTION_S = 5
STRANGER_COUNT = 20
# Nobody can serve what these concern, until they are over.
OUTAGES = ("between", "etcd_majority")
FULL_STATUSES = (-errno.ENOSPC, -errno.EIO)


class Faults:
    """One method for each fault, which ends when the cause is gone."""

    def __init__(self, cluster, load, chance):
        self.cluster, self.load, self.random = cluster, load, chance
        self.network, self.lease_s = cluster.network, cluster.options.lease
        self.has_delay = None  # unknown

    def any_server(self):
        return self.random.choice(self.cluster.servers)

    def pause(self, least=0.2, most=2.5):
        """Some leases."""
        self.cluster.pause(self.lease_s * self.random.uniform(least, most))

    def long_pause(self):
        """Sometimes so long that a client which waits for its end has waited too long."""
        self.pause(0.2, 2.5 if self.random.random() < 0.7 else 2 * SERVICE_LEASES)

    def kill(self, server):
        server.end()
        # It is back before another one has taken over, or after.
        self.pause(0, 2.5)
        server.start()

    def etcd_member(self, member):
        self.cluster.etcd.members[member].kill()
        self.pause(0, 1.5)
        self.restart_etcd()

    def kill_both(self, server, member):
        """A server and a member of etcd, one shortly after the other."""
        ends = [server.end, self.cluster.etcd.members[member].kill]
        self.random.shuffle(ends)
        ends[0]()
        self.pause(0, 0.5)
        ends[1]()
        self.pause(0, 2)
        starts = [server.start, self.restart_etcd]
        self.random.shuffle(starts)
        starts[0]()
        self.pause(0, 0.5)
        starts[1]()

    def stop(self):
        """As an operator restarts a server."""
        server = self.any_server()
        server.end(signal.SIGTERM)
        self.pause(0, 0.5)
        server.start()

    def freeze(self):
        server = self.any_server()
        server.process.send_signal(signal.SIGSTOP)
        try:
            self.long_pause()
        finally:
            server.process.send_signal(signal.SIGCONT)

    def cable(self):
        link = self.any_server().link
        self.network.set_up(link, False)
        self.long_pause()
        self.network.set_up(link, True)

    def one_way(self):
        link = self.any_server().link
        self.network.drop(link, [self.random.choice(["egress", "ingress"])])
        self.long_pause()
        self.network.end_drop(link)

    def between(self):
        """Two servers do not reach each other. Clients, the third one and etcd reach both."""
        links = [server.link for server in self.random.sample(self.cluster.servers, 2)]
        self.network.separate(links, True)
        self.pause()
        self.network.separate(links, False)

    def loss(self):
        link = self.any_server().link
        self.network.drop(link, ["egress", "ingress"], self.random.choice([1, 5, 20]))
        self.pause(1, 3)
        self.network.end_drop(link)

    def can_delay(self):
        if self.has_delay is None:
            link = self.cluster.servers[0].link
            self.has_delay = self.network.delay(link, 1)
            if self.has_delay:
                self.network.end_delay(link)
            else:
                print("cluster: delay is left out: this kernel has no netem", flush=True)
        return self.has_delay

    def delay(self):
        link = self.any_server().link
        self.network.delay(link, self.random.choice([20, 200]))
        self.pause(1, 3)
        self.network.end_delay(link)

    def etcd_majority(self):
        for member in self.random.sample(self.cluster.etcd.members, 2):
            member.kill()
        self.pause(0.5, 2.5)
        self.restart_etcd()

    def restart_etcd(self):
        for member in self.cluster.etcd.members:
            if member.returncode is not None or member.poll() is not None:
                member.wait()
        self.cluster.etcd.restart()

    def full_disk(self):
        """What the log could not hold is in memory only, until the server is restarted."""
        server = self.cluster.servers[-1]
        self.load.ask("allow " + ",".join(str(code) for code in FULL_STATUSES))
        ballast = self.cluster.small_disk.parent / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        self.pause(1, 3)
        ballast.unlink()
        server.end()
        self.pause(0, 1)
        server.start()
        self.cluster.wait_until_whole()
        self.load.ask("allow")

    def empty_disk(self):
        server = self.any_server()
        server.end()
        server.erase()
        self.pause(0, 2)
        server.start()

    def stranger(self):
        """Someone else changes the clients' objects. The clients have to notice."""
        url = f"{self.cluster.location()}load0/plain0"
        # A client may replace the object before any of them reads it.
        for _ in range(STRANGER_COUNT):
            self.cluster.tanada("cp", "-q", self.cluster.keys, url)
            self.pause(0.05, 0.05)


KILLS = ("kill", "etcd_member")
OTHER_FAULTS = (
    "stop", "freeze", "cable", "one_way", "between", "loss", "delay", "etcd_majority", "full_disk",
    "empty_disk",
)  # fmt: skip


def result(what, value, unit, bar=None):
    met = None if bar is None else value is not None and value <= bar
    return {
        "what": what,
        "value": value if value is None else float(f"{value:.6g}"),
        "unit": unit,
        "rival": None,
        "rival_value": None,
        "ratio": None,
        "bar": bar,
        "better": "lower",
        "met": met,
    }


class Table:
    """What was seen of each fault."""

    def __init__(self):
        self.rows, self.failures, self.messages = {}, collections.Counter(), {}
        self.call_count = self.operation_count = self.acknowledged_count = 0
        self.kill_counts = collections.Counter()

    def add(self, fault, report, whole_s):
        row = self.rows.setdefault(
            fault, {"count": 0, "change_gap_s": 0, "read_gap_s": 0, "whole_s": 0}
        )
        row["count"] += 1
        row["change_gap_s"] = max(row["change_gap_s"], report["change_gap_s"])
        row["read_gap_s"] = max(row["read_gap_s"], report["read_gap_s"])
        row["whole_s"] = max(row["whole_s"], whole_s)
        self.call_count += report["changes"] + report["reads"]
        self.failures.update(report["failures"])
        self.messages.update(report["messages"])

    def document(self):
        faults = [
            {"fault": name, **{key: round(value, 2) for key, value in row.items()}}
            for name, row in self.rows.items()
        ]
        return {
            "faults": faults,
            "kills": dict(sorted(self.kill_counts.items())),
            "calls": self.call_count,
            "checked_operations": self.operation_count,
            "checked_objects": self.acknowledged_count,
            "failed_calls": dict(sorted(self.failures.items())),
        }

    def results(self, problem):
        """The document as the rows of docs/measurements."""
        kills = f"{min(self.kill_counts.values(), default=0)} kills of each process"
        rows = [
            result(f"operations whose outcome was checked, {kills}", self.operation_count, ""),
            result(f"acknowledged objects that were checked, {kills}", self.acknowledged_count, ""),
            result("objects lost or wrong", 0 if problem is None else None, "", bar=0),
        ]
        for name, row in self.rows.items():
            fault = f"{name}, {row['count']} times"
            rows.append(result(f"{fault}: longest time without a change", row["change_gap_s"], "s"))
            rows.append(result(f"{fault}: longest time without a read", row["read_gap_s"], "s"))
        return rows

    def text(self):
        lines = [f"{'fault':15}{'times':>7}{'no change':>12}{'no read':>10}{'whole again':>14}"]
        for name, row in self.rows.items():
            lines.append(
                f"{name:15}{row['count']:7}{row['change_gap_s']:10.1f} s{row['read_gap_s']:8.1f} s"
                f"{row['whole_s']:12.1f} s"
            )
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kill_counts.items()))
        lines.append(f"processes killed: {kills or 'none'}")
        lines.append(
            f"{self.call_count} calls, {self.operation_count} operations checked, "
            f"{self.acknowledged_count} acknowledged objects among them"
        )
        for what, count in sorted(self.failures.items()):
            lines.append(f"{count:7} {what} ({self.messages[what]})")
        return "\n".join(lines)


class Suite:
    def __init__(self, cluster, load, options):
        self.cluster, self.load, self.options = cluster, load, options
        self.table = Table()
        self.random = random.Random(options.seed)
        self.faults = Faults(cluster, load, self.random)
        self.begin_s = self.progress_s = time.monotonic()

    def run(self):
        names = [name for name in self.options.faults if name not in KILLS]
        period = self.options.others_every
        for number in range(max(self.options.kills, period * len(names))):
            if number < self.options.kills:
                self.kill_all()
            if names and number % period == 0:
                self.meet(names[number // period % len(names)])
            self.check()
            if time.monotonic() > self.begin_s + 60 * self.options.minutes:
                break

    def kill_all(self):
        """Each server, and each member of etcd."""
        kills = [name for name in KILLS if name in self.options.faults]
        members = range(len(self.cluster.etcd.members))
        for i in range(max(len(self.cluster.servers), len(members))):
            victims = {}
            if "kill" in kills and i < len(self.cluster.servers):
                victims["kill"] = self.cluster.servers[i]
            if "etcd_member" in kills and i in members:
                victims["etcd_member"] = i
            if len(victims) == len(KILLS) and self.random.random() < 0.5:
                self.meet("kill_both", *victims.values())
            else:
                for name, victim in victims.items():
                    self.meet(name, victim)
            if "kill" in victims:
                self.table.kill_counts[f"server {victims['kill'].name}"] += 1
            if "etcd_member" in victims:
                self.table.kill_counts[f"etcd m{i}"] += 1

    def meet(self, name, *victims):
        if name == "delay" and not self.faults.can_delay():
            return
        self.load.ask("mark")
        getattr(self.faults, name)(*victims)
        whole_s = self.cluster.wait_until_whole()
        self.cluster.pause(0.2 * self.options.lease)
        report = self.load.ask("report")
        self.table.add(name, report, whole_s)
        if report["problems"]:
            raise FaultError(f"after {name}: " + "\n".join(report["problems"]))
        gap_s = max(report["change_gap_s"], report["read_gap_s"])
        lease_s = self.options.lease
        limit_s = max(SERVICE_LEASES * lease_s, SHORT_LEASES * lease_s + CLIENT_S)
        if name == "kill_both":
            limit_s += ELECTION_S
        limit_s *= self.options.slow
        if name not in OUTAGES and gap_s > limit_s:
            raise FaultError(f"during {name}, a client had no answer for {gap_s:.1f} s")
        self.print_progress()

    def check(self):
        result = self.load.ask("check", CHECK_LIMIT_S)
        self.table.operation_count += result["operations"]
        self.table.acknowledged_count += result["acknowledged"]
        problems = self.load.ask("report")["problems"]
        if result["history"] or problems:
            raise FaultError("\n".join([result["history"], *problems]))

    def print_progress(self):
        now_s = time.monotonic()
        if now_s < self.progress_s + PROGRESS_S:
            return
        self.progress_s = now_s
        counts = ", ".join(f"{name} {row['count']}" for name, row in self.table.rows.items())
        slowest_s = max(row["change_gap_s"] for row in self.table.rows.values())
        print(
            f"cluster: {(now_s - self.begin_s) / 60:.0f} min; {counts}; {self.table.call_count} "
            f"calls, at most {slowest_s:.1f} s without a change",
            flush=True,
        )


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--kills", type=int, default=100, help="of each server and member of etcd")
    add("--others-every", type=int, default=1, help="rounds of kills for one of the other faults")
    add("--minutes", type=float, default=600, help="no round begins after that")
    add("--faults", default=",".join((*KILLS, *OTHER_FAULTS)), help="those that happen")
    add("--lease", type=int, default=5, help="seconds")
    add("--limit", type=int, default=180, help="seconds until the cluster is whole again")
    add("--slow", type=float, default=1, help="factor of a client's longest wait: busy machines")
    add("--copies", type=int, default=2)
    add("--servers", type=int, default=3)
    add("--memory-only", action="store_true", help="servers without a log")
    add("--pause", type=int, default=20, help="milliseconds between a client's calls")
    add("--seed", type=int, default=int(time.time()))
    add("--json", help="file that the result is written to")
    add("--keep-logs", action="store_true", help="also if everything held")
    options = parser.parse_args()
    options.faults = options.faults.split(",")
    unknown = set(options.faults) - {"stranger", *KILLS, *OTHER_FAULTS}
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}")
    if options.memory_only:
        options.faults = [name for name in options.faults if name != "full_disk"]
    return options


def run_in(folder, options):
    """Whether everything held."""
    with Network() as network, Cluster(folder, network, options) as cluster:
        load = Load(cluster, options)
        suite = Suite(cluster, load, options)
        problem = None
        try:
            suite.run()
        except FaultError as error:
            problem = str(error)
            print(f"cluster: {problem}\n{cluster.log_tails()}", file=sys.stderr)
        finally:
            load.end()
    print(suite.table.text())
    if options.json:
        document = {
            **header("pool_cluster_faults"),
            "rows": suite.table.results(problem),
            **suite.table.document(),
            "problem": problem,
        }
        pathlib.Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    return problem is None


def main():
    options = arguments()
    try:
        isolate()
        if shutil.which("etcd") is None:
            raise NetworkError("etcd is missing: apt-get install etcd-server")
    except NetworkError as error:
        print(f"cluster: skipped: {error}", file=sys.stderr)
        return SKIPPED
    print(f"cluster: seed {options.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tanada-cluster-"))
    is_good = False
    try:
        is_good = run_in(folder, options)
    except (FaultError, etcd.EtcdError) as error:
        print(f"cluster: {error}", file=sys.stderr)
    finally:
        if is_good and not options.keep_logs:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"cluster: logs are in {folder}", file=sys.stderr)
    return 0 if is_good else FAILED


if __name__ == "__main__":
    sys.exit(main())
