"""Measure how far answers of a weighted table are off, for each way to release it privately, and without privacy.

`python -m experiments.weights [--only PATTERN] [--workers N] [--seeds N]` runs LAMP on tables that are samples with
design weights, at each budget, in each way:

- "ignored": the weights are left out, and counts are multiplied by the mean weight, which is taken as public.
- "attribute": the weight is an attribute of WEIGHT_BINS ranges; a weighted answer adds up the middles of the ranges.
- "emphasized": the same, where pairs with the weight count EMPHASIS times as much in the workload as others.
- "largest": noise is scaled to the largest weight. Each record counts as often as its weight says, in units of half the
  mean weight, and neighbors differ in as many records as the largest weight says.
- "strata": records whose weights are up to an eighth, a quarter, a half and the whole of the bound are measured by
  themselves, each with the whole budget.
- "coarse": the ranges of "attribute" without any noise, which is the error of the ranges alone.

`coverage` in the report is of another experiment: persons or households are sampled with unequal probabilities from the
travel survey, as if it were the population; each attribute is measured with the weight; and 95 % intervals of weighted
totals are compared with the sample's totals and with those of the population.

Each run is kept in build/weights as a JSON file at once, so that a command that was stopped goes on where it was. The
tables are written to experiments/results/weights.{csv,md}. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import data_folder, load
from experiments.kept_runs import KeptRuns, add_options, made_by, wanted

WAYS = ("ignored", "attribute", "emphasized", "largest", "strata", "coarse")
EPSILONS, SEEDS = (1.0, 10.0), 3
WEIGHT_BINS, STRATA = 40, (0, 5, 10, 20, 40)
EMPHASIS = 3.0
MOST_CELLS, FEWEST = 500, 50
RESULTS = Path(__file__).resolve().parent / "results"
WEIGHT = "weight"


@dataclass(frozen=True)
class Weighted:
    """A table with a weight for each record.

    Attributes:
        data: the records.
        weights: their weights, shape (records,).
        most: the public bound of the weights.
        number: the attribute whose mean by groups is asked for.
        groups: the attributes that make groups.
    """

    data: pg.Dataset
    weights: np.ndarray
    most: float
    number: str
    groups: tuple[str, ...]

    @property
    def edges(self) -> np.ndarray:
        """The edges of the ranges of weights."""
        return np.linspace(0.0, self.most, WEIGHT_BINS + 1)


@dataclass(frozen=True)
class Run:
    """One release of one table."""

    table: str
    way: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.table.replace('/', '_').replace(' ', '_')}-{self.way}-{self.epsilon:g}-{self.seed}"


KEPT = KeptRuns("weights", Run)


@dataclass(frozen=True)
class CoverageRun:
    """One sample of persons, or of whole households, and one release of it.

    `effect` is the design effect that the intervals assume.
    """

    design: str
    epsilon: float
    effect: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"coverage-{self.design}-{self.epsilon:g}-{self.effect:g}-{self.seed}"


COVERED = KeptRuns("weights_coverage", CoverageRun)
DESIGNS = (("persons", 1.0), ("households", 1.0), ("households", 2.5))
COVERAGE_SEEDS, SAMPLED = 10, 0.1


# -- tables -----------------------------------------------------------------------------------------------------------


def _acs(name: str, column: str) -> Weighted:
    """Return a table of the ACS, whose weights are published in tenths of a power of ten."""
    data = load(name)
    names = ("SEX", "AGEP", "MSP", "RAC1P", "HISP", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET")
    code = data.column(column).astype(float)
    there = code > 0 if column == "WGTP" else code >= 0
    weights = 10 ** ((code - (column == "WGTP") + 0.5) / 10)
    kept = data.select(names).take(there)
    return Weighted(kept, weights[there], 500.0, "PINCP_DECILE", ("SEX", "RAC1P", "EDU", "MSP"))


def _coded(frame: pd.DataFrame, weights: pd.Series, most: float, number: str, groups: tuple[str, ...]) -> Weighted:
    """Return a table of text columns and of columns of codes."""
    codes = {name: pd.factorize(frame[name], sort=True, use_na_sentinel=False)[0] for name in frame}
    domain = {name: int(column.max()) + 1 for name, column in codes.items()}
    return Weighted(pg.Dataset.from_codes(list(codes.values()), domain), weights.to_numpy(), most, number, groups)


def _eusilc(level: str) -> Weighted:
    folder = data_folder() / "households" / "eusilc"
    households = pd.read_csv(folder / "households.csv.gz")
    tenth = pd.cut(households["eqIncome"], [-np.inf, *range(4000, 40_001, 4000), np.inf], labels=False)
    homes = households.assign(income=tenth, hsize=households["hsize"].clip(upper=6))
    if level == "households":
        frame = homes[["hsize", "db040", "income"]].assign(
            pensions=(homes["hy050n"] > 0).astype(int), rent=(homes["hy040n"] > 0).astype(int)
        )
        return _coded(frame, homes["db090"], 1200.0, "income", ("hsize", "db040"))
    persons = pd.read_csv(folder / "persons.csv.gz").merge(homes[["db030", "hsize", "db040", "income"]], on="db030")
    frame = persons[["rb090", "pl030", "pb220a", "hsize", "db040", "income"]].assign(
        age=persons["age"].clip(0, 99) // 5
    )
    return _coded(frame, persons["rb050"], 1200.0, "income", ("rb090", "pl030", "db040"))


def _travel() -> Weighted:
    folder = data_folder() / "households" / "travel_survey"
    households = pd.read_csv(folder / "households.csv.gz")
    columns = ["hhID", "SUBREGCluster", "HHSize", "HHIncome", "HHDwelling"]
    present = [name for name in columns if name in households]
    persons = pd.read_csv(folder / "persons.csv.gz").merge(households[present], on="hhID")
    frame = persons[["PAge", "PGender", "PEmp", "POcc", "PComm", *present[1:]]]
    return _coded(frame, persons["Pweight"], 150.0, "HHIncome", ("PGender", "PAge", "PEmp"))


TABLES: dict[str, Callable[[], Weighted]] = {
    "acs/MA2019 PWGTP": lambda: _acs("acs/MA2019", "PWGTP"),
    "acs/NATIONAL2019 PWGTP": lambda: _acs("acs/NATIONAL2019", "PWGTP"),
    "acs/NATIONAL2019 WGTP": lambda: _acs("acs/NATIONAL2019", "WGTP"),
    "eusilc rb050": lambda: _eusilc("persons"),
    "eusilc db090": lambda: _eusilc("households"),
    "travel_survey Pweight": _travel,
}


@cache
def table(name: str) -> Weighted:
    """Return a table, read once a process."""
    return TABLES[name]()


# -- ways -------------------------------------------------------------------------------------------------------------

Answers = Callable[[tuple[str, ...]], np.ndarray]
"""A function of attributes that returns their weighted table."""


def _lamp(epsilon: float, **options: Any) -> pg.mechanisms.LAMP:
    return pg.mechanisms.LAMP(epsilon=epsilon, delta=1e-9, backend="simulation", **options)


def _binned(given: Weighted) -> tuple[pg.Dataset, np.ndarray]:
    """Return the table with its weights as an attribute, and the middle of each range of weights."""
    edges = given.edges
    codes = np.clip(np.searchsorted(edges, given.weights, side="right") - 1, 0, WEIGHT_BINS - 1)
    data = pg.Dataset.from_codes([*given.data.columns, codes], {**given.data.domain, WEIGHT: WEIGHT_BINS})
    return data, 0.5 * (edges[1:] + edges[:-1])


def answers(given: Weighted, run: Run) -> Answers:
    """Return the weighted answers of one release."""
    mean = float(given.weights.mean())
    if run.way == "ignored":
        model = _lamp(run.epsilon).fit(given.data, seed=run.seed).model
        return lambda names: mean * model.project(names).values
    if run.way == "largest":
        unit = 0.5 * mean
        exact = np.minimum(given.weights, given.most) / unit
        copies = np.floor(exact + np.random.default_rng(run.seed).random(len(exact))).astype(int)
        data = given.data.take(np.repeat(np.arange(len(exact)), copies))
        most = pg.privacy.AddRemove(int(np.ceil(given.most / unit)))
        model = _lamp(run.epsilon, neighbors=most).fit(data, seed=run.seed).model
        return lambda names: unit * model.project(names).values
    data, middles = _binned(given)
    if run.way in ("attribute", "emphasized", "coarse"):
        workload = None
        if run.way == "emphasized":
            pairs = list(itertools.combinations(data.domain, 2))
            workload = pg.workloads.marginals(pairs, [EMPHASIS if WEIGHT in pair else 1.0 for pair in pairs])
        model: Any = data if run.way == "coarse" else _lamp(run.epsilon).fit(data, workload, run.seed).model
        return lambda names: model.project((*names, WEIGHT)).values @ middles
    parts = []
    for low, high in itertools.pairwise(STRATA):
        inside = (data.column(WEIGHT) >= low) & (data.column(WEIGHT) < high)
        parts.append(_lamp(run.epsilon).fit(data.take(inside), seed=run.seed).model)
    return lambda names: np.sum([part.project((*names, WEIGHT)).values @ middles for part in parts], axis=0)


# -- errors -----------------------------------------------------------------------------------------------------------


def _tables(given: Weighted) -> Iterator[tuple[str, ...]]:
    domain = given.data.domain
    for size in (1, 2):
        for names in itertools.combinations(domain, size):
            if domain.size(names) <= MOST_CELLS:
                yield names


def errors(given: Weighted, found: Answers) -> dict[str, float]:
    """Return the mean errors of totals, shares and means."""
    weighted = pg.Dataset(given.data.domain, given.data.columns, given.data.records, given.weights)
    totals, shares = [], []
    for names in _tables(given):
        true, guess = weighted.project(names).values, found(names)
        totals.append(np.abs(guess - true).sum() / true.sum())
        shares.append(0.5 * np.abs(guess / guess.sum() - true / true.sum()).sum())
    means = []
    levels = np.arange(given.data.domain[given.number], dtype=float)
    whole = weighted.project((given.number,)).values
    spread = float(np.sqrt(np.cov(levels, aweights=whole)))
    for group in given.groups:
        names = (group, given.number)
        true, guess = weighted.project(names).values, np.maximum(found(names), 0.0)
        counted = given.data.project((group,)).values >= FEWEST
        with np.errstate(invalid="ignore", divide="ignore"):
            off = (guess @ levels) / guess.sum(axis=1) - (true @ levels) / true.sum(axis=1)
        means += list(np.abs(np.nan_to_num(off[counted], nan=spread)) / spread)
    whole_off = abs(found(()).sum() / given.weights.sum() - 1)
    return {
        "total": float(whole_off),
        "totals": float(np.mean(totals)),
        "shares": float(np.mean(shares)),
        "means": float(np.mean(means)),
    }


def measure(run: Run) -> dict[str, Any]:
    """Return the errors of one release."""
    given = table(run.table)
    started = time.perf_counter()
    found = answers(given, run)
    return {**errors(given, found), "seconds": time.perf_counter() - started}


# -- coverage ---------------------------------------------------------------------------------------------------------


def cover(run: CoverageRun) -> dict[str, Any]:
    """Return how often the intervals of one release hold, for the table and for the population."""
    generator = np.random.default_rng(run.seed)
    given = table("travel_survey Pweight").data
    sizes, ages = given.column("HHSize").astype(int), given.column("PAge").astype(int)
    if run.design == "persons":
        chance = SAMPLED * (0.5 + sizes / 4) * (0.5 + ages / 10)
        drawn = generator.random(given.records) < chance
    else:
        households = pd.read_csv(data_folder() / "households" / "travel_survey" / "persons.csv.gz")["hhID"]
        number, first = pd.factorize(households)[0], ~households.duplicated().to_numpy()
        chance = (SAMPLED * (0.5 + sizes[first] / 4))[number]
        drawn = (generator.random(first.sum()) < chance[first])[number]
    sample, weights = given.take(drawn), 1 / chance[drawn]
    weights *= given.records / weights.sum()
    kept = [name for name in given.domain if given.domain[name] <= 12]
    described: dict[str, Any] = {name: {"type": "integer", "min": 0, "max": given.domain[name] - 1} for name in kept}
    weight = {"column": WEIGHT, "max": 40}
    schema = pg.Schema.from_dict({"columns": described, "weight": weight})
    data = schema.encode(sample.select(kept).to_frame().assign(**{WEIGHT: weights}))
    budget = pg.privacy.Rho.of(run.epsilon, 1e-9)
    curator = pg.privacy.Curator(data, budget, backend="simulation", seed=run.seed)
    model = pg.estimate(curator.measure_all([(name, WEIGHT) for name in kept], budget), data.domain)
    held, reach = {"table": [], "population": []}, []
    true = pg.Dataset(sample.domain, sample.columns, sample.records, weights)
    for name in kept:
        assert schema.weight is not None
        found = schema.weight.attribute.table(model, name)
        for about, target in (("table", true), ("population", given)):
            low, high = found.interval(about=about, design_effect=run.effect, kind="noise")
            truth = target.project((name,)).values
            held[about] += ((low.values <= truth) & (truth <= high.values)).tolist()
        reach += (high.values - low.values).tolist()
    return {**{about: float(np.mean(found)) for about, found in held.items()}, "width": float(np.mean(reach))}


# -- report -----------------------------------------------------------------------------------------------------------


def report(rows: pd.DataFrame) -> str:
    """Return the report as Markdown."""
    lines = [
        "# Weighted tables: the error of each way to release them",
        "",
        "Means over all tables of one and two attributes, and over seeds; `python -m experiments.weights`. All numbers",
        "are in percent. `totals`: the l1 error of weighted tables as a share of the whole weight. `shares`: the total",
        "variation of weighted shares. `means`: the error of a weighted mean by group, as a share of its standard",
        "deviation. `all`: the error of the sum of all weights. Noise of simulations.",
        "",
    ]
    for name in TABLES:
        here = rows[rows["table"] == name]
        if here.empty:
            continue
        given = table(name)
        effective = given.weights.sum() ** 2 / (given.weights**2).sum() / len(given.weights)
        lines += [
            f"## {name}: {given.data.records:,} records, mean weight {given.weights.mean():.4g}, bound {given.most:g}, "
            f"effective size {100 * effective:.0f} %",
            "",
            "| epsilon | way | all | totals | shares | means | seeds |",
            "|--:|---|--:|--:|--:|--:|--:|",
        ]
        for (epsilon, way), group in sorted(
            here.groupby(["epsilon", "way"]), key=lambda item: (item[0][0], WAYS.index(str(item[0][1])))
        ):
            cells = [f"{100 * group[column].mean():.2f}" for column in ("total", "totals", "shares", "means")]
            lines.append(f"| {epsilon:g} | {way} | {' | '.join(cells)} | {len(group)} |")
        lines.append("")
    return "\n".join(lines)


def coverage_report(rows: pd.DataFrame) -> str:
    """Return the report of the coverage as Markdown."""
    lines = [
        "## Coverage of 95 % intervals of weighted totals",
        "",
        "Samples of a tenth of the travel survey, taken as the population, by unequal probabilities; in percent.",
        "",
        "| sampled | design effect | epsilon | holds for the table | holds for the population | mean width | seeds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (design, effect, epsilon), group in rows.groupby(["design", "effect", "epsilon"], sort=False):
        shown = f"{100 * group['table'].mean():.0f} | {100 * group['population'].mean():.0f}"
        lines.append(f"| {design} | {effect:g} | {epsilon:g} | {shown} | {group['width'].mean():,.0f} | {len(group)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "acs*-attribute-1-*")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of each way (default {SEEDS})")
    options = parser.parse_args()
    runs = [
        Run(name, way, epsilon, seed)
        for seed in range(options.seeds)
        for name in TABLES
        for epsilon in EPSILONS
        for way in WAYS
        if way != "coarse" or (seed == 0 and epsilon == EPSILONS[0])
    ]
    for run, found in made_by(wanted(runs, options, lambda run: KEPT.row(run) is not None), measure, options.workers):
        row = KEPT.keep(run, found)
        print(", ".join(f"{key} {value:.4f}" for key, value in row.items() if key in found), flush=True)
    samples = [
        CoverageRun(design, epsilon, effect, seed)
        for design, effect in DESIGNS
        for epsilon in EPSILONS
        for seed in range(COVERAGE_SEEDS)
    ]
    for one, found in made_by(
        wanted(samples, options, lambda one: COVERED.row(one) is not None), cover, options.workers
    ):
        print(COVERED.keep(one, found), flush=True)
    rows, covered = KEPT.table(runs), COVERED.table(samples)
    text = ""
    for made, write, name in ((rows, report, "weights"), (covered, coverage_report, "weights_coverage")):
        if not made.empty:
            made.to_csv(RESULTS / f"{name}.csv", index=False, float_format="%.6g")
            text += write(made) + "\n"
    if text:
        (RESULTS / "weights.md").write_text(text)


if __name__ == "__main__":
    main()
