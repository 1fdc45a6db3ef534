"""python -m experiments.households.whole [--only PATTERN] [--fresh] [--report] [--workers N]: whole households.

LinkedLAMP on three tables of households and persons and on four generated ones, at four budgets and three seeds. Then
the intervals of shares and means over whole households, of conditions on their persons that are drawn at random, are
compared with the truth. Earlier runs are reused (`experiments.kept_runs`). The tables go to
experiments/results/households_whole.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.households.coverage import EPSILONS, SEEDS, held_and_width
from experiments.households.designs import DELTA
from experiments.households.runs import LinkedRun
from experiments.households.tables import NAMES, as_linked, load
from experiments.households.worlds import WORLDS
from experiments.kept_runs import KeptRuns, run_and_report
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.trees import family_table

KINDS = {
    "someone": "someone of a kind",
    "two": "at least two of a kind",
    "numbers": "exactly 0, 1 or 2, or at least 3 of a kind",
    "everyone": "all persons of a kind",
    "only": "all persons of one kind are of another, of households with the first",
    "both": "someone of each of two kinds",
    "by": "someone of a kind, of households with one value",
    "average": "the mean number of persons of a kind",
    "spread": "the largest code exceeds the smallest by some number, such as of an age",
    "rare": "any of these but the last, in 0.05 to 1 % of the households",
}
"""The classes of questions. A kind of person is a value, a range or a set of values of one attribute or of two."""
RELATED = "spread"
"""The class of questions that relate persons to one another; the others follow from numbers of persons."""
ASKED, RARE_ASKED = 60, 25
"""The number of questions of a class that are drawn, and of each class for rare ones."""
SHARES, RARE_SHARES = (0.01, 0.99), (0.0005, 0.01)
"""The true shares that questions are about."""
FEWEST = 50
"""The fewest households that a share is of."""
HEAD = """# Whole households: what 95 % intervals hold

`python -m experiments.households.whole` makes this table. After `LinkedLAMP` on anytown, eusilc and travel_survey
(delta is 1e-9, noise is simulated), `result.unit_interval` is asked about shares of households and means over them; of
each class, questions are drawn at random, and those whose true share is 1 to 99 % are kept. *Held*: the share of
intervals that have the truth, in percent, mean of tables and seeds; *worst*: the smallest one of a table and budget,
mean of seeds; *width*: the mean width, relative to that of an oracle that gives each answer of a class the same width,
from the errors of these answers.

"""
GENERATED = """
The same on the households of [Linked tables: generated households](household_worlds.md), on which no constant of the
intervals was chosen.

"""

Condition = list[tuple[int, np.ndarray]]
"""The attributes of a child, by position, each with the codes that it may have."""


KEPT = KeptRuns("households_whole", LinkedRun)
RUNS = [LinkedRun(table, epsilon, seed) for seed in SEEDS for table in (*NAMES, *WORLDS) for epsilon in EPSILONS]

Parts = tuple[np.ndarray, np.ndarray]
"""The values of households, and 1 for those that a share or mean is of, shape (households,)."""


def measure(run: LinkedRun) -> dict[str, Any]:
    """Run LinkedLAMP, and return what its intervals hold."""
    true = WORLDS[run.table].families() if run.table in WORLDS else load(run.table)
    mechanism = LinkedLAMP(epsilon=run.epsilon, delta=DELTA, backend="simulation")
    result = mechanism.fit(as_linked(true), seed=1000 * run.seed + int(10 * run.epsilon), progress=False)
    return judged(result, true, run.table)


def judged(result: Any, true: Families, table: str) -> dict[str, Any]:
    """Return the share of intervals that hold and their widths by class, and the seconds of the first and of one."""
    made = family_table(result.model, "persons")
    start = time.process_time()
    result.unit_interval(np.ones(len(made.sizes)))
    found: dict[str, Any] = {"first_seconds": time.process_time() - start}
    asked, seconds = 0, 0.0
    generator = np.random.default_rng(zlib.crc32(table.encode()))
    rare: list[tuple[float, Parts]] = []
    for kind in KINDS:
        kept = rare
        if kind != "rare":
            questions = [(question(true), question(made)) for question in _questions(true, kind, generator)]
            shares = [(float(of[0].sum() / max(of[1].sum(), 1)), of, answer) for of, answer in questions]
            enough = [(share, answer) for share, of, answer in shares if of[1].sum() >= FEWEST]
            means = kind == "average"
            kept = [one for one in enough if means or SHARES[0] <= one[0] <= SHARES[1]]
            some = [one for one in enough if not means and RARE_SHARES[0] <= one[0] < RARE_SHARES[1]]
            rare += some[:RARE_ASKED] if kind != RELATED else []
        if not kept:
            continue
        exact, parts = np.array([share for share, _ in kept]), [answer for _, answer in kept]
        start = time.process_time()
        asked_of = (np.stack(both, axis=1) for both in zip(*parts, strict=True))
        answers = result.unit_interval(*asked_of, counted=kind != RELATED)
        seconds, asked = seconds + time.process_time() - start, asked + len(parts)
        most = np.inf if kind == "average" else 1.0
        low, high = np.maximum(answers.low, 0.0), np.minimum(answers.high, most)
        ends = np.isfinite(high - low)
        off = (answers.values - exact)[ends]
        found[f"{kind}, held"] = float(((low - 1e-12 <= exact) & (exact <= high + 1e-12)).mean())
        oracle = 2 * 1.96 * float(np.sqrt(np.nanmean(np.square(off))))
        found[f"{kind}, width"] = float((high - low)[ends].mean()) / max(oracle, 1e-12)
    return {**found, "seconds": seconds / max(1, asked)}


def _questions(true: Families, kind: str, generator: np.random.Generator) -> Iterator[Callable[[Families], Parts]]:
    """Yield functions of families that return the values of a question."""
    for _ in range(ASKED):
        one, other = (condition(true, generator) for _ in range(2))
        above = int(generator.integers(len(true.layout.parents)))
        value, exactly = int(generator.choice(true.parents[:, above])), int(generator.integers(4))
        place = int(generator.integers(len(true.layout.members)))
        apart = int(generator.integers(1, true.layout.child.shape[place]))

        def parts(
            families: Families,
            one: Condition = one,
            other: Condition = other,
            above: int = above,
            value: int = value,
            exactly: int = exactly,
            place: int = place,
            apart: int = apart,
        ) -> Parts:
            everywhere, count = np.ones(len(families.sizes)), number(families, one)
            if kind == "spread":
                return (_range(families, place) >= apart) * 1.0, everywhere
            if kind == "only":
                inside = (count > 0) * 1.0
                return inside * (number(families, [*one, *other]) == count), inside
            if kind == "by":
                inside = (families.parents[:, above] == value) * 1.0
                return inside * (count > 0), inside
            return {
                "someone": count > 0,
                "two": count > 1,
                "numbers": np.minimum(count, 3) == exactly,
                "everyone": count == families.sizes,
                "both": (count > 0) & (number(families, other) > 0),
                "average": count,
            }[kind] * 1.0, everywhere

        yield parts


def condition(true: Families, generator: np.random.Generator) -> Condition:
    """Return a kind of person: a value, a range or a set of values of one attribute or of two."""
    shape = true.layout.child.shape
    found = []
    for place in generator.choice(len(shape), 1 + int(generator.random() < 0.5), replace=False):
        codes, how = np.arange(shape[place]), int(generator.integers(3))
        if how == 0 or len(codes) <= 3:
            allowed = codes == generator.integers(len(codes))
        elif how == 1:
            allowed = (codes >= generator.integers(1, len(codes))) ^ (generator.random() < 0.5)
        else:
            allowed = generator.random(len(codes)) < 0.4
        found.append((int(place), allowed))
    return found


def number(families: Families, condition: Condition) -> np.ndarray:
    """Return the number of persons of a kind in each household."""
    there = np.ones(len(families.children), dtype=bool)
    for place, allowed in condition:
        there &= allowed[families.children[:, place]]
    return np.bincount(families.owners, there, len(families.sizes))


def _range(families: Families, place: int) -> np.ndarray:
    """Return the largest less the smallest code of an attribute in each household, 0 without persons."""
    codes, sizes = families.children[:, place], families.sizes
    most, least = np.zeros(len(sizes), dtype=np.int64), np.full(len(sizes), codes.max(initial=0))
    np.maximum.at(most, families.owners, codes)
    np.minimum.at(least, families.owners, codes)
    return np.maximum(most - least, 0) * 1.0


def report(rows: pd.DataFrame) -> str:
    """Return the report of the rows."""
    generated = rows["table"].isin(list(WORLDS))
    return HEAD + _report(rows[~generated]) + (GENERATED + _report(rows[generated]) if generated.any() else "")


def _report(rows: pd.DataFrame) -> str:
    """Return the number of runs, the seconds, and what intervals hold by class."""
    means = rows.drop(columns="seed").groupby(["table", "epsilon"]).mean()
    epsilons = " / ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    first, one = rows["first_seconds"], 1000 * rows["seconds"].mean()
    lines = [f"Runs: {len(rows)}. The first answer takes {first.min():.1f} to {first.max():.1f} s of one processor, "]
    lines[0] += f"a further one {one:.1g} ms."
    lines += ["", f"| questions | held at epsilon {epsilons} | worst | width |", "|---|---:|---:|---:|"]
    lines += [f"| {meaning} | " + " | ".join(held_and_width(means, kind)) + " |" for kind, meaning in KINDS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_and_report(KEPT, RUNS, measure, report, __doc__, "eusilc-1-*", "households.whole")
