"""The Global Arrays programs that are compared: the two examples, and timed programs of its suite."""

import dataclasses
import json

from ports import HAS, ROOT

EXAMPLES = {"stencil": "ga_stencil9", "dgemm": "ga_dgemm"}
# C programs that take at least a second and end by themselves. The time includes the start of the ranks.
SUITE = (
    "examples/lennard-jones/lennard.c",
    "testing/elempatch.c",
    "testing/j_iter.c",
    "testing/packc.c",
    "testing/perf2.c",
    "testing/scan_copyc.c",
    "testing/unpackc.c",
)


@dataclasses.dataclass(frozen=True)
class Job:
    """A program with its arguments. `what` is the name of its row."""

    what: str
    source: str
    words: tuple = ()

    @property
    def is_example(self):
        return self.source in EXAMPLES.values()

    def command(self, setup, program, source_folder):
        if self.is_example:
            return setup.compile_with_arrays(
                sorted((ROOT / "examples" / self.source).glob("*.c")), program, "-std=c11"
            )
        source = source_folder / "global" / self.source
        return setup.compile_with_arrays(
            [source], program, "-fopenmp", f"-I{source_folder}/global/testing", *HAS
        )


def jobs_of(kind, size):
    """With `size` "small" a job takes a second on two processors of an idle machine."""
    small = size == "small"
    if kind == "stencil":
        side = 2048 if small else 8192
        yield Job("stencil", "ga_stencil9", ("--size", side, "--steps", 100, "--json"))
        yield Job(
            "stencil, k = 10",
            "ga_stencil9",
            ("--size", side, "--steps", 200, "--block", 10, "--json"),
        )
    elif kind == "dgemm":
        yield Job("dgemm", "ga_dgemm", ("--size", 1200 if small else 4096, "--json"))
    else:
        for source in SUITE:
            yield Job(source.rpartition("/")[2].removesuffix(".c"), source)


def report_of(outcome):
    """The report that an example printed, or None."""
    for line in reversed(outcome.output.splitlines()):
        if line.startswith('{"program"'):
            try:
                return json.loads(line)
            except ValueError:
                return None
    return None


def with_figure(job, outcome, sums):
    """The outcome with a line for bench/common/results.py.

    `sums` has the checksum of each job, which must be equal for all set-ups.
    """
    if not job.is_example:
        value, unit = outcome.seconds, "s"
    else:
        report = report_of(outcome)
        if report is None:
            return (
                outcome
                if outcome.status != "passed"
                else dataclasses.replace(outcome, status="failed")
            )
        if sums.setdefault(job, report["checksum"]) != report["checksum"]:
            return dataclasses.replace(
                outcome,
                status="failed",
                output=f"does not hold: the checksum {report['checksum']} is {sums[job]}",
            )
        value, unit = report["gflops"], "GF/s"
    if outcome.status != "passed":
        return outcome
    line = json.dumps({"what": job.what, "value": value, "unit": unit})
    return dataclasses.replace(outcome, output=f"{outcome.output}\n{line}\n")
