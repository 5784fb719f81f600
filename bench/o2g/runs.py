"""Experiments: a program run several times on every set-up in turn, and the rows made of its
figures.
"""

import dataclasses
import re
import statistics
import sys

import processes

FIGURE = re.compile(r"^figure (\S+) (\S+)\s*$", re.M)


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure that a program prints, as a row. `scale` converts it to the unit. The bar applies
    to the ratio to the best rival, or with `alone` to the value itself.
    """

    name: str
    what: str
    unit: str
    scale: float = 1.0
    better: str = "lower"
    bar: float | None = None
    alone: bool = False


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A program on `ranks` ranks. With `over_link`, each rank is in a network namespace of its own.
    `same` names a figure that must not differ between set-ups or rounds: the program's result.
    """

    name: str
    program: str
    words: tuple
    figures: tuple
    ranks: int = 2
    over_link: bool = False
    timeout_s: float = 60
    same: str | None = None


class Results:
    """The results of one experiment's set-ups: figures of each round, and the reason for a missing
    one.
    """

    def __init__(self, experiment):
        self.experiment = experiment
        self.figures = {}
        self.reasons = {}
        self.result = None

    def add(self, setup, outcome):
        """True if the set-up may continue: one that hung, failed or computed another result is not
        run again.
        """
        found = dict(FIGURE.findall(outcome.output))
        status = outcome.status
        if status == "passed" and self.experiment.same:
            self.result = self.result or found[self.experiment.same]
            status = status if found[self.experiment.same] == self.result else "wrong"
        if status != "wrong":
            for name, value in found.items():
                self.figures.setdefault(setup.name, {}).setdefault(name, []).append(float(value))
        if status != "passed":
            self.reasons[setup.name] = status
            print(
                f"bench: {setup.name}: {self.experiment.name} {status} after {outcome.seconds:.0f} s: "
                f"{last_words(outcome.output)}",
                file=sys.stderr,
            )
        return status == "passed"

    def value(self, setup, figure):
        """The median of the rounds, scaled; or a word with the reason why there is no figure."""
        values = self.figures.get(setup.name, {}).get(figure.name)
        if not values:
            return self.reasons.get(setup.name, "missing")
        # As many digits as are needed to compare, and no more.
        return float(f"{statistics.median(values) * figure.scale:.4g}")


def last_words(output):
    lines = [line for line in output.splitlines() if line.strip() and not FIGURE.match(line)]
    return " | ".join(lines[-3:])[-300:]


def best(setups, values, better):
    """The set-up with the best number among `values`, or None."""
    able = [each for each in setups if isinstance(values[each.name], float)]
    if not able:
        return None
    choose = max if better == "higher" else min
    return choose(able, key=lambda each: values[each.name])


def row_of(figure, setups, values):
    """The row of a figure: our best set-up against the best rival. `setups` has the value of each."""
    ours = best([each for each in setups if each.is_ours], values, figure.better)
    rival = best([each for each in setups if not each.is_ours], values, figure.better)
    value = values[ours.name] if ours else None
    rival_value = values[rival.name] if rival else None
    ratio = float(f"{value / rival_value:.4g}") if ours and rival_value else None
    held = value if figure.alone else ratio
    met = None
    if figure.bar is not None and held is not None:
        met = held >= figure.bar if figure.better == "higher" else held <= figure.bar
    return {
        "what": figure.what,
        "value": value,
        "unit": figure.unit,
        "by": ours.name if ours else None,
        "rival": rival.name if rival else None,
        "rival_value": rival_value,
        "ratio": ratio,
        "bar": figure.bar,
        "bar_on": "value" if figure.alone else "ratio",
        "better": figure.better,
        "met": met,
        "setups": values,
    }


def run_rounds(experiment, setups, rounds, launch):
    """Results of an experiment. `launch(setup)` returns (command, environment). Set-ups alternate
    in every round.
    """
    results = Results(experiment)
    left = list(setups)
    for _ in range(rounds):
        for setup in list(left):
            command, environment = launch(setup)
            if not results.add(setup, processes.run(command, environment, experiment.timeout_s)):
                left.remove(setup)
    return results


def measure(experiment, setups, rounds, launch):
    """Rows of an experiment: see run_rounds()."""
    results = run_rounds(experiment, setups, rounds, launch)
    return [
        row_of(figure, setups, {each.name: results.value(each, figure) for each in setups})
        for figure in experiment.figures
    ]


def shown(value):
    return value if isinstance(value, str) else "" if value is None else f"{value:g}"


def print_row(row):
    print(
        f"{row['what']:58} {shown(row['value']):>9} {row['unit']:8} {shown(row['rival_value']):>9} {row['rival'] or '':22}"
        f" {shown(row['ratio']):>7} {shown(row['bar']):>6} {'' if row['met'] is None else 'met' if row['met'] else 'MISSED'}"
    )
    print(
        "    " + "; ".join(f"{name} {shown(value)}" for name, value in row["setups"].items()),
        flush=True,
    )
