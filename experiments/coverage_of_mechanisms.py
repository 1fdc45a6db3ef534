"""Measure how often the default intervals hold after MST, AIM and a fixed set of measurements (`Model.interval`).

`python -m experiments.coverage mechanisms [--workers N] [--seeds N]` runs each mechanism at each budget on some tables,
several times over, and asks the model for 95 % intervals of five classes of answers whose truth is known. Each run is
kept in build/coverage as a JSON file at once, so that a command that was stopped goes on where it was; the rows of the
committed table count as kept, too. It writes
experiments/results/coverage_mechanisms.{csv,md}. Set OPENBLAS_NUM_THREADS=1.

Compared with is what an oracle would publish who knows how far answers are off: twice 1.96 standard deviations of the
error of the intervals' middles, pooled over the class (from its mean absolute value, so that no single cell decides).
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import itertools
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load
from pgmest._base.files import write_atomically

OUT = Path(__file__).parent / "results" / "coverage_mechanisms.md"
ROWS = OUT.with_suffix(".csv")
KEPT = Path(__file__).resolve().parents[1] / "build" / "coverage"
DRAWS, WARM_UP = 400, 150
DELTA = 1e-9
REACH = 1.959964
CLOSE = 1e-6
MOST_PAIRS = 5
SEEDS, EPSILONS = 4, (1.0, 0.1, 10.0)
CLASSES = ("measured", "unmeasured", "prefix", "means", "regression")
FIELDS = ("table", "mechanism", "epsilon", "seed", "class", "kind", "answers", "held", "width", "error", "seconds")

TABLES = {
    "census": ("education-num", "occupation", "marital-status", "relationship", "sex", "income>50K"),
    "loans": ("grade", "term", "home_ownership", "emp_length", "purpose", "loan_status"),
    "acs/MA2019": ("MSP", "SEX", "RAC1P", "HISP", "OWN_RENT", "EDU"),
    "titanic": (),
    "stroke": (),
    "adult": ("age", "education-num", "marital-status", "occupation", "race", "sex", "income>50K"),
    "BR2000": (),
    "fire": (),
    "acs-ipums23": (),
    "acs/IL_OH": ("SEX", "MARST", "RACE", "HISPAN", "EDUC", "EMPSTAT", "HCOVANY"),
    "random 0.01": (),
    "random 0.1": (),
    "random 1": (),
}
"""Data sets and the attributes used; () for those with at most 40 values, the first seven. A random table has records
of a distribution drawn from Dirichlet's with that parameter for each of its cells."""
MOST_VALUES, MOST_ATTRIBUTES = 40, 7
RANDOM_SHAPE, RANDOM_RECORDS = {"a": 12, "b": 9, "c": 6, "d": 5, "e": 3}, 5000


@dataclass(frozen=True)
class Run:
    """A table, a mechanism and a budget."""

    table: str
    mechanism: str
    epsilon: float
    seed: int

    @property
    def kept(self) -> Path:
        """The file of its rows."""
        return KEPT / f"{self.table.replace('/', '_')}-{self.mechanism}-{self.epsilon:g}-{self.seed}.json"


def runs(seeds: int) -> Iterator[Run]:
    """All runs, in the order of the rows."""
    for seed, epsilon, mechanism, table in itertools.product(range(seeds), EPSILONS, ("fixed", "MST", "AIM"), TABLES):
        yield Run(table, mechanism, epsilon, seed)


def data_of(table: str) -> pg.Dataset:
    """The records, with the attributes that are used."""
    if table.startswith("random"):
        return random_table(float(table.split()[1]))
    data = pg.datasets.load("census") if table == "census" else load(table)
    names = [name for name in TABLES[table] if name in data.domain]
    if not names:
        names = [name for name in data.domain if 1 < data.domain[name] <= MOST_VALUES][:MOST_ATTRIBUTES]
    return data.select(names)


def random_table(concentration: float) -> pg.Dataset:
    """Records of a distribution that was drawn at random, the more cells of it empty the smaller the parameter."""
    domain, generator = pg.Domain(RANDOM_SHAPE), np.random.default_rng(round(1000 * concentration))
    weights = generator.standard_gamma(concentration, domain.size()) + 1e-300
    cells = generator.choice(domain.size(), RANDOM_RECORDS, p=weights / weights.sum())
    return pg.Dataset.from_codes(np.stack(np.unravel_index(cells, domain.shape), axis=1), domain)


def model_of(run: Run, data: pg.Dataset) -> pg.Model:
    """What the mechanism learned; the fixed set is a chain of pairs and their neighbors' neighbors, measured alike."""
    settings: dict[str, Any] = {"epsilon": run.epsilon, "delta": DELTA, "backend": "simulation"}
    if run.mechanism != "fixed":
        return getattr(pg.mechanisms, run.mechanism)(**settings).fit(data, seed=run.seed, progress=False).model
    names = data.domain.attributes
    pairs = [*itertools.pairwise(names), *zip(names, names[2:], strict=False)][: len(names)]
    curator = pg.privacy.Curator(data, pg.privacy.Rho.of(run.epsilon, DELTA), backend="simulation", seed=run.seed)
    return pg.estimate(curator.measure_all(pairs, curator.budget), data.domain)


def questions(model: pg.Model, data: pg.Dataset) -> Iterator[tuple[str, Any, Any]]:
    """The class of an answer, its query and its clique."""
    assert model.measurements is not None
    measured = {frozenset(m.clique) for m in model.measurements}
    pairs = list(itertools.combinations(data.domain, 2))
    inside = [pair for pair in pairs if any(set(pair) <= clique for clique in measured)]
    outside = [pair for pair in pairs if pair not in inside]
    for name, chosen in (("measured", inside), ("unmeasured", outside)):
        for pair in chosen[:MOST_PAIRS]:
            yield name, pair, None
    for name, size in data.domain.items():
        if any(name in clique for clique in measured):
            yield "prefix", pg.Kron({name: pg.queries.prefix(size)}), None
    for pair in (*inside[:3], *outside[:3]):
        yield "means", conditional_means, pair
    names = data.domain.attributes
    for place in range(len(names)):  # each attribute in turn is the outcome, the two after it are the features
        outcome, *features = [names[(place + step) % len(names)] for step in range(min(3, len(names)))]
        yield "regression", coefficients, (*features, outcome)


def conditional_means(table: pg.Factor) -> np.ndarray:
    """The mean code of the last attribute by the first one's, with one more record in the middle for each."""
    values = np.maximum(table.values, 0.0)
    codes = np.arange(values.shape[1])
    return (values @ codes + codes.mean()) / (values.sum(axis=1) + 1.0)


def coefficients(table: pg.Factor) -> np.ndarray:
    """Return the coefficients of the regression of the last attribute's code on the other codes, all standardized."""
    codes = np.indices(table.domain.shape).reshape(len(table.domain), -1).astype(float)
    weights = np.maximum(table.datavector(), 0.0) / max(float(np.maximum(table.values, 0.0).sum()), 1e-9)
    centered = codes - (codes @ weights)[:, None]
    covariance = (centered * weights) @ centered.T
    scale = np.sqrt(np.diag(covariance)) + 1e-9
    correlation = covariance / np.outer(scale, scale) + 1e-6 * np.eye(len(scale))
    return np.linalg.solve(correlation[:-1, :-1], correlation[:-1, -1])


def exact(data: pg.Dataset, query: Any, clique: Any) -> np.ndarray:
    """The table's own answer."""
    if clique is not None:
        return np.asarray(query(data.project(clique)))
    if isinstance(query, pg.Kron):
        return query.apply(data.project(query.attributes))
    return data.project(query).values


def rows(run: Run) -> list[dict[str, Any]]:
    """The scores of a run, a row for each class and kind of interval that was chosen."""
    data = data_of(run.table)
    model = model_of(run, data)
    start = time.process_time()
    model.posterior(DRAWS, run.seed, warm_up=WARM_UP, chains=2)
    seconds = time.process_time() - start
    found: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for name, query, clique in questions(model, data):
        try:
            chosen = model.interval(query, clique)
        except pg.errors.ArgumentError:  # a function of attributes of whose dependence nothing is known
            continue
        truth, answer = exact(data, query, clique), 0.5 * (chosen.low + chosen.high).values
        held = (truth >= chosen.low.values - CLOSE) & (truth <= chosen.high.values + CLOSE)
        parts = [held.astype(float), chosen.width.values, np.abs(answer - truth)]
        found[name, f"{chosen.kind}, {chosen.basis}"].append(np.stack([part.reshape(-1) for part in parts]))
    done = []
    for (name, kind), parts in found.items():
        scores = np.concatenate(parts, axis=1)
        values = (run.table, run.mechanism, run.epsilon, run.seed, name, kind, scores.shape[1], *scores.mean(axis=1))
        done.append(dict(zip(FIELDS, (*values, seconds), strict=True)))
    return done


def report(done: list[dict[str, Any]]) -> str:
    """The table of all rows that are done: a line for each mechanism, budget and class, pooled over the data."""
    groups: dict[tuple[str, str, str, float], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in done:
        groups[row["class"], row["kind"], row["mechanism"], row["epsilon"]][row["table"]].append(row)
    lines = []
    for key in sorted(groups, key=lambda one: (CLASSES.index(one[0]), *one[1:])):
        pooled = np.array([_pooled(group) for group in groups[key].values()])
        answers, held, width, error = pooled.T
        wide = np.maximum(width, 1e-12) / np.maximum(error, 1e-12) / (2 * REACH * np.sqrt(np.pi / 2))
        middle = np.exp(np.mean(np.log(wide)))
        share = f"{np.average(held, weights=answers):.1%}"
        cells = (*key[:3], f"{key[3]:g}", f"{int(answers.sum()):,}", share, f"{held.min():.0%}", f"{middle:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    tables = ", ".join(dict.fromkeys(row["table"] for row in done))
    return "\n".join(
        [
            "# What the default intervals hold after a mechanism",
            "",
            f"Made by `python -m experiments.coverage mechanisms`; not edited. Tables: {tables}.",
            f"95 % intervals of the kind that `Model.interval` chooses, from {DRAWS} draws. *Held*: the share of",
            "answers whose interval holds the truth, over all tables, and on the table where it is least. *Width*:",
            "the mean width over that of an oracle that knows how far answers of the class are off, the geometric",
            "mean over tables. A *kind* with dependence rests on unmeasured pairs being as dependent as measured ones.",
            "",
            "| class | kind | mechanism | epsilon | answers | held | least | width |",
            "|---|---|---|---:|---:|---:|---:|---:|",
            *lines,
            "",
        ]
    )


def _pooled(rows: list[dict[str, Any]]) -> tuple[float, float, float, float]:
    """The number of answers of some runs, and the means over them of what they held, of widths and of errors."""
    answers = np.array([row["answers"] for row in rows], dtype=float)
    held, width, error = (
        float(np.average([row[name] for row in rows], weights=answers)) for name in ("held", "width", "error")
    )
    return float(answers.sum()), held, width, error


def made(run: Run) -> list[dict[str, Any]]:
    """The rows of a run that was made before, from its file or the committed table; none where it was not."""
    if run.kept.exists():
        return json.loads(run.kept.read_text(encoding="utf-8"))["rows"]
    return _committed().get(run, [])


@functools.cache
def _committed() -> dict[Run, list[dict[str, Any]]]:
    found: dict[Run, list[dict[str, Any]]] = defaultdict(list)
    for row in pd.read_csv(ROWS).to_dict("records") if ROWS.exists() else ():
        found[Run(row["table"], row["mechanism"], float(row["epsilon"]), int(row["seed"]))].append(dict(row))
    return found


def keep(run: Run) -> None:
    """Make the rows of a run, and write them to its file."""
    found = rows(run)
    run.kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(run.kept, json.dumps({**asdict(run), "rows": found}))


def write(done: Iterable[Run]) -> None:
    """The rows of the runs that are done, and their table."""
    found = [row for run in done for row in made(run)]
    text = io.StringIO()
    writer: csv.DictWriter[Any] = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    write_atomically(ROWS, text.getvalue())
    write_atomically(OUT, report(found))


def main() -> None:
    """Run what is not done, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.coverage mechanisms", description=__doc__)
    parser.add_argument("mechanisms")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind (default {SEEDS})")
    parser.add_argument("--most", type=int, help="do so many runs at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after so many")
    options = parser.parse_args()
    wanted, started = list(runs(options.seeds)), time.monotonic()
    missing = [run for run in wanted if not made(run)][: options.most]
    print(f"{len(wanted)} runs, {len(missing)} to do", flush=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if missing:
        with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
            waiting = {pool.submit(keep, run): run for run in missing}
            for number, done in enumerate(as_completed(waiting), 1):
                failed = "" if done.cancelled() or done.exception() is None else f": {done.exception()!r}"
                print(f"{number}/{len(missing)} {waiting[done].kept.stem}{failed}", flush=True)
                if time.monotonic() - started > options.seconds:
                    pool.shutdown(wait=False, cancel_futures=True)
    write(wanted)


if __name__ == "__main__":
    main()
