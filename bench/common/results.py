"""Results that programs printed in several rounds, and the rows made of them."""

import json
import statistics
import sys

BAR = 1.0  # ahead of the best rival, or equal


def figures_of(output):
    """What a program printed: {what: (value, unit)}."""
    found = {}
    for line in output.splitlines():
        if not line.startswith('{"what"'):
            continue
        try:
            figure = json.loads(line)
        except ValueError:
            continue  # incomplete because the program was ended
        found[figure["what"]] = (float(figure["value"]), figure["unit"])
    return found


def last_words(output):
    lines = [line for line in output.splitlines() if line.strip(" -") and not line.startswith("{")]
    return " | ".join(lines[:3])[:300]


class Results:
    """The results of one program's set-ups: figures of each round, and the reason for a missing
    one.
    """

    def __init__(self, title):
        self.title = title
        self.values = {}
        self.units = {}
        self.reasons = {}

    def add(self, setup, outcome):
        """True if the set-up may continue: one that hung or failed is not run again. Its earlier
        figures are valid, because a program stops at a wrong result.
        """
        for what, (value, unit) in figures_of(outcome.output).items():
            self.units.setdefault(what, unit)
            self.values.setdefault(what, {}).setdefault(setup.name, []).append(value)
        if outcome.status != "passed":
            self.reasons[setup.name] = (
                "wrong" if "does not hold" in outcome.output else outcome.status
            )
            print(
                f"bench: {self.title}: {setup.name} {self.reasons[setup.name]} after {outcome.seconds:.0f} s: "
                f"{last_words(outcome.output)}",
                file=sys.stderr,
            )
        return outcome.status == "passed"

    def value(self, what, setup):
        """The median of the rounds, or a word with the reason why there is no figure."""
        values = self.values[what].get(setup.name)
        return (
            float(f"{statistics.median(values):.4g}")
            if values
            else self.reasons.get(setup.name, "missing")
        )


def best(setups, values, better):
    able = [each for each in setups if isinstance(values[each.name], float)]
    choose = max if better == "higher" else min
    return choose(able, key=lambda each: values[each.name]) if able else None


def row_of(what, unit, setups, values):
    """Our figure against the best rival's. If ours was run and gave no figure, the bar is missed."""
    better = "lower" if unit in ("us", "s") else "higher"
    ours = best([each for each in setups if each.is_ours], values, better)
    rival = best([each for each in setups if not each.is_ours], values, better)
    value = values[ours.name] if ours else None
    rival_value = values[rival.name] if rival else None
    ratio = float(f"{value / rival_value:.4g}") if ours and rival_value else None
    met = None
    if ratio is not None:
        met = ratio <= BAR if better == "lower" else ratio >= BAR
    elif rival and any(
        each.is_ours and not values[each.name].startswith(("missing", "left out"))
        for each in setups
    ):
        met = False
    return {
        "what": what,
        "value": value,
        "unit": unit,
        "rival": rival.name if rival else None,
        "rival_value": rival_value,
        "ratio": ratio,
        "bar": BAR,
        "better": better,
        "met": met,
        "setups": values,
    }


def rows_of(results, setups, absent):
    """Rows of everything that any set-up printed. `absent`: unavailable set-ups, {name: reason}."""
    for what, unit in results.units.items():
        values = {each.name: results.value(what, each) for each in setups}
        yield row_of(f"{what}, {results.title}", unit, setups, {**values, **absent})


def shown(value):
    return value if isinstance(value, str) else "" if value is None else f"{value:g}"


def print_short(row):
    """One line, without the set-ups."""
    met = "" if row["met"] is None else "met" if row["met"] else "MISSED"
    print(
        f"{row['what']:56} {shown(row['value']):>7} {row['unit']:4}"
        f" {shown(row['rival_value']):>7} {row['rival'] or '':28} {shown(row['ratio']):>7} {met}"
    )


def print_row(row):
    met = "" if row["met"] is None else "met" if row["met"] else "MISSED"
    print(
        f"{row['what']:44} {shown(row['value']):>9} {row['unit']:5} {shown(row['rival_value']):>9} {row['rival'] or '':18}"
        f" {shown(row['ratio']):>7} {met}"
    )
    print(
        "    " + "; ".join(f"{name} {shown(value)}" for name, value in row["setups"].items()),
        flush=True,
    )
