"""The cells of the experiment: which mechanism is run on which table, and by what its records are judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.ppsyn import problems, scores
from experiments.ppsyn.leak import PPSynPublishedPartlyClosed
from experiments.ppsyn.published import PPSynAsPublishedNotPrivate
from pgmest import mechanisms
from pgmest.data.dataset import Dataset
from pgmest.evaluation import workload_error
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.result import Result
from pgmest.workloads import Workload

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
SVM_EPSILONS = (0.1, 0.5, 2.0)
LEAK_EPSILONS = {"BR2000": (0.05, 0.1, 0.5, 2.0), "adult14": (0.1, 2.0)}
ETAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DIMENSIONS = (2, 3, 4, 5)
DELTA = 1e-9
SEEDS = 3
PARAMETER_EPSILON = 0.5
"""Figures 7 and 8; the paper does not say theirs."""
SMALLER_ETA, BUDGETS_OF_ETA = 0.4, (0.1, 0.2, 1.0)
"""The best eta on BR2000 at that budget, and others to try it at."""
DIMENSION_EPSILON = 0.1
"""Figure 9, as in the paper."""

PUBLISHED = "PPSynAsPublishedNotPrivate"
LIMITED: dict[str, Any] = {"max_megabytes": 1.0, "max_cells": problems.MAX_CELLS}
MECHANISMS: dict[str, dict[str, Any]] = {
    "MST": {},
    "AIM": LIMITED,
    "PrivMRF": {"max_megabytes": 1.0},
    "PPSyn": LIMITED,
    PUBLISHED: LIMITED,
}
"""The mechanisms that the paper compares, our private PPSyn, and their parameters."""
LETTER = "PPSyn to the letter (not private)"
"""Candidates W alone, and the weights of equation 6; `PUBLISHED` has AIM's candidates and 1 / sigma^2."""
PLAIN = {"AIM, plain": "AIM", "MST, plain": "MST", "PrivMRF, plain": "PrivMRF"}
"""The comparators as published: they end at the optimum of the loss, not in `mirror_flow`, and PrivMRF has no
workload."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "to the letter, 1 over sigma squared": (LETTER, {"weights": "variance"}),
    "to the letter, AIM's candidates": (LETTER, {"candidates": "closure"}),
    "to the letter, 16 MB": (LETTER, {"max_megabytes": 16.0}),
    "PPSyn, every cell": ("PPSyn", {"fineness": 0.0}),
    "PPSyn as published, no limits": (PUBLISHED, {"max_megabytes": 16.0, "max_cells": 1e7}),
    "PrivMRF, plain, 16 MB": ("PrivMRF, plain", {"max_megabytes": 16.0}),
}
"""Mechanisms with one parameter changed, to test causes."""
LETTER_EPSILONS = {"adult14": (0.1, 0.5, 2.0), "BR2000": (0.1, 0.5, 2.0), "loans": (0.1, 0.5)}
COMPARED = {
    "adult14": ("AIM", "MST", "PrivMRF"),
    "BR2000": ("AIM", "MST", "PrivMRF"),
    "loans": ("AIM", "MST", "PrivMRF", "PPSyn"),
}
"""The mechanisms beside these; `sweep` has them, too, but not their ranges of other seeds."""
DEFAULT_ETA, LOANS_ETAS = 0.7, (0.4, 0.55, 0.9, 1.0)
"""The eta of runs that name none, which the paper recommends, and those beside it on Loans."""
RANGE_SEEDS = (0, 1, 2, 3, 4)
INDEPENDENT = "Independent"
"""Beside them in Figure 9: what one-way marginals alone give."""

FEW, MORE = 6, 30
"""Rounds (T) that the forms below are planned for; the published one has 16 per attribute."""

CONTROL = f"published, {FEW} rounds"
FORMS: dict[str, dict[str, Any]] = {
    CONTROL: {"partitions": "records", "contributions": "records"},
    "partitions closed": {"partitions": "model", "contributions": "records"},
    "no partitions": {"partitions": "cells", "contributions": "records"},
    "budgets closed": {"partitions": "records", "contributions": "noisy"},
    "budgets closed, chosen first": {"partitions": "records", "contributions": "chosen"},
    "closed": {"partitions": "model", "contributions": "noisy"},
    "closed, chosen first": {"partitions": "model", "contributions": "chosen"},
    "closed, no partitions": {"partitions": "cells", "contributions": "chosen"},
}
"""The published algorithm with one of its two leaks closed, or both. What is paid for now suits few rounds. The first
form is the published one with no more rounds than they have, so that what they lose is not for want of rounds."""

WITH_MORE = {
    f"published, {MORE} rounds": FORMS[CONTROL],
    **{
        f"{name}, {MORE} rounds": FORMS[name]
        for name in ("no partitions", "budgets closed, chosen first", "closed, no partitions")
    },
}
LEAKS: dict[str, dict[str, Any]] = {
    **{name: {**form, "rounds": FEW} for name, form in FORMS.items()},
    **{name: {**form, "rounds": MORE} for name, form in WITH_MORE.items()},
}
"""All forms, with their rounds."""
QUICK_LEAKS = (CONTROL, "no partitions", "budgets closed, chosen first", "closed, no partitions")
"""One of each of the groups below."""

GROUPS: dict[str, list[str]] = {
    "as published, fewer rounds": [name for name in LEAKS if name.startswith("published")],
    "partitions closed": [name for name in LEAKS if name.startswith(("partitions", "no partitions"))],
    "budgets closed": [name for name in LEAKS if name.startswith("budgets")],
    "both closed (private)": [name for name in LEAKS if name.startswith("closed")],
}
"""The forms by which leak they close."""


def best_forms(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """The rows of a table of runs, of each group those of the form with the least median in each setting.

    The rows of mechanisms in no group stay as they are.
    """
    of = {name: group for group, names in GROUPS.items() for name in names}
    table = table.assign(group=table["mechanism"].map(of).fillna(table["mechanism"]))
    keys = ["table", "epsilon", "group"]
    medians = table.groupby([*keys, "mechanism"])[value].median().reset_index()
    best = medians.loc[medians.groupby(keys)[value].idxmin(), [*keys, "mechanism"]]
    return table.merge(best).assign(mechanism=lambda rows: rows["group"]).drop(columns="group")


@dataclass(frozen=True)
class Cell:
    """One run on a workload of d-way marginals, judged by them and by ranges.

    Attributes:
        table: the data.
        mechanism: the mechanism's name in pgmest, or one of `LEAKS`.
        epsilon: the budget, with `DELTA`.
        d: attributes of each marginal of the workload.
        eta: of the two PPSyn; None for their default.
        seed: of the run.
        marginals: of the workload.
        drawn_again: whether the records are judged by ranges of other seeds and by prefixes, too.
    """

    table: str
    mechanism: str
    epsilon: float
    d: int = 3
    eta: float | None = None
    seed: int = 0
    marginals: int = problems.MARGINALS
    drawn_again: bool = False

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        eta = "" if self.eta is None else f"-eta{self.eta:g}"
        plain = self.mechanism.replace(", ", "-").replace(" ", "-")
        of = "" if self.marginals == problems.MARGINALS else f"-of{self.marginals}"
        again = "-again" if self.drawn_again else ""
        return f"{self.table}-{plain}-{self.epsilon:g}-d{self.d}{eta}-{self.seed}{of}{again}"

    def make(self) -> Mechanism:
        """The mechanism, on simulated noise."""
        return made(self.mechanism, self.epsilon, self.eta)

    def row(self) -> dict[str, Any]:
        """Fit, draw as many records as were estimated, and judge them; errors as the paper defines them."""
        data, workload = problems.table(self.table), self.workload()
        started = time.perf_counter()
        asked = None if self.mechanism.startswith("PrivMRF, plain") else workload
        result = self.make().fit(data, asked, seed=self.seed, progress=False)
        seconds = time.perf_counter() - started
        records = result.sample(seed=self.seed)
        return {
            "table": self.table,
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "d": self.d,
            "eta": self.eta,
            "seed": self.seed,
            "workload_error": workload_error(data, records, workload, norm="l1", per="record"),
            "ranges_3": scores.range_error(self.table, records, 3),
            "ranges_5": scores.range_error(self.table, records, 5),
            **(self.more_ranges(records) if self.drawn_again else {}),
            **self.more(result),
            "measurements": len(result.measurements),
            "seconds": seconds,
        }

    def workload(self) -> Workload:
        """The marginals that are asked for."""
        return problems.workload(self.table, self.d, self.marginals)

    def more(self, result: Result) -> dict[str, Any]:
        """Other columns of the row: none."""
        return {}

    def more_ranges(self, records: Dataset) -> dict[str, float]:
        """Ranges of other seeds, those of them with some records, prefixes, and those about attributes of the workload.

        An error of ranges with some records is nan where there are none.
        """
        inside = [problems.named(self.table, self.d).issuperset(o.clique) for o in problems.ranges(self.table, 3)]
        of_named = scores.range_errors(self.table, records, 3)[np.array(inside)]
        found = {"ranges_3_named": float(of_named.mean())}
        for seed in RANGE_SEEDS:
            errors = scores.range_errors(self.table, records, 5, seed)
            filled = scores.true_ranges(self.table, 5, seed) * problems.table(self.table).records >= problems.FEW
            found[f"ranges_5_of_{seed}"] = float(errors.mean())
            found[f"filled_5_of_{seed}"] = float(errors[filled].mean())
            found[f"prefixes_5_of_{seed}"] = scores.range_error(self.table, records, 5, seed, prefixes=True)
        return found


@dataclass(frozen=True)
class SvmCell:
    """Five folds: records made from four of them train the machine, which is tested on the fifth.

    Attributes:
        table: the data.
        mechanism: the mechanism's name in pgmest, or "real records".
        epsilon: the budget, with `DELTA`.
        records: the number of records drawn from the table once; None for all.
        marginals: of the workload.
        seed: of the mechanism.
    """

    table: str
    mechanism: str
    epsilon: float
    records: int | None = None
    marginals: int = problems.MARGINALS
    seed: int = 0

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        of = "" if self.records is None else f"-of{self.records}"
        seed = f"-{self.seed}" if self.seed else ""
        return f"svm-{self.table}-{self.mechanism.replace(' ', '_')}-{self.epsilon:g}{of}{seed}"

    def row(self) -> dict[str, Any]:
        """The rate of each fold."""
        rates = scores.svm_rates(self.table, self._synthesizer(), records=self.records)
        named = {f"fold_{number}": rate for number, rate in enumerate(rates)}
        known = {"table": self.table, "mechanism": self.mechanism, "epsilon": self.epsilon, "seed": self.seed}
        return {**known, **named}

    def _synthesizer(self) -> Any:
        if self.mechanism == "real records":
            return None
        workload = problems.workload(self.table, 3, self.marginals)
        made_once = made(self.mechanism, self.epsilon)
        return lambda train: made_once.fit(train, workload, seed=self.seed, progress=False).sample(seed=self.seed)


def made(name: str, epsilon: float, eta: float | None = None) -> Mechanism:
    """Return a mechanism by its name: `PUBLISHED`, one of `LEAKS`, or a mechanism of pgmest."""
    given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "backend": "simulation"}
    if eta is not None:
        given["eta"] = eta
    if name in VARIANTS:
        base, changed = VARIANTS[name]
        return replace(made(base, epsilon, eta), **changed)
    if name == LETTER:
        return PPSynAsPublishedNotPrivate(**given, **LIMITED, candidates="workload", weights="stddev")
    if name in PLAIN:
        return getattr(mechanisms, PLAIN[name])(**given, **MECHANISMS[PLAIN[name]], method="auto")
    if name in LEAKS:
        return PPSynPublishedPartlyClosed(**given, **LIMITED, **LEAKS[name])
    kind = PPSynAsPublishedNotPrivate if name == PUBLISHED else getattr(mechanisms, name)
    return kind(**given, **MECHANISMS.get(name, {}))


FEW_RECORDS, FEW_MARGINALS = 4000, 8
"""The numbers of records and marginals of a quick run."""


def sweep(seeds: int, quick: bool) -> Iterator[Cell]:
    """Figures 3 to 5 on Adult and BR2000; `letter` has Loans."""
    for table in problems.TABLES[1:2] if quick else problems.TABLES[:2]:
        for epsilon in (0.1, 1.0) if quick else EPSILONS:
            for name in MECHANISMS:
                yield from (Cell(table, name, epsilon, seed=seed, marginals=_marginals(quick)) for seed in range(seeds))


def letter(seeds: int, quick: bool) -> Iterator[Cell]:
    """PPSyn to the letter and the comparators as published, judged by ranges of several seeds and by prefixes."""
    for table, epsilons in {"BR2000": (0.5,)}.items() if quick else LETTER_EPSILONS.items():
        for epsilon in epsilons:
            for name in (LETTER, *PLAIN, *COMPARED[table]):
                for seed in range(seeds):
                    yield Cell(table, name, epsilon, seed=seed, marginals=_marginals(quick), drawn_again=True)


def loans_etas(seeds: int, quick: bool) -> Iterator[Cell]:
    """Figures 7c and 8c, with fewer values of eta than 7 and 8, for a run takes minutes; `letter` has the default."""
    for seed in () if quick else range(seeds):
        yield Cell("loans", LETTER, PARAMETER_EPSILON, seed=seed, drawn_again=True)
        yield from (Cell("loans", LETTER, PARAMETER_EPSILON, eta=eta, seed=seed) for eta in LOANS_ETAS)


def support_vectors(quick: bool) -> Iterator[SvmCell]:
    """Figure 6."""
    of: dict[str, Any] = {"records": FEW_RECORDS if quick else None, "marginals": _marginals(quick)}
    for table in problems.TARGETS if not quick else ("BR2000",):
        yield SvmCell(table, "real records", 0.0, **of)
        for epsilon in (0.5,) if quick else SVM_EPSILONS:
            for name in (PUBLISHED, "PrivMRF") if quick else MECHANISMS:
                yield SvmCell(table, name, epsilon, **of)


def etas(seeds: int, quick: bool) -> Iterator[Cell]:
    """Figures 7 and 8."""
    for table in problems.TABLES[1:2] if quick else problems.TABLES[:2]:
        for name in ("PPSyn", PUBLISHED):
            for eta in (0.3, 1.0) if quick else ETAS:
                for seed in range(seeds):
                    yield Cell(table, name, PARAMETER_EPSILON, eta=eta, seed=seed, marginals=_marginals(quick))


def eta_budgets(seeds: int, quick: bool) -> Iterator[Cell]:
    """A smaller eta than the default, which `sweep` has, at other budgets: where it is best depends on them."""
    for epsilon in () if quick else BUDGETS_OF_ETA:
        yield from (Cell("BR2000", PUBLISHED, epsilon, eta=SMALLER_ETA, seed=seed) for seed in range(seeds))


def dimensions(seeds: int, quick: bool) -> Iterator[Cell]:
    """Figure 9."""
    for name in (*MECHANISMS, INDEPENDENT):
        for d in (2, 3) if quick else DIMENSIONS:
            for seed in range(seeds):
                yield Cell("BR2000", name, DIMENSION_EPSILON, d=d, seed=seed, marginals=_marginals(quick))


def leaks(seeds: int, quick: bool) -> Iterator[Cell]:
    """The published algorithm with the leak closed, in parts and all of it; as published it is in `sweep`."""
    for table in ("BR2000",) if quick else LEAK_EPSILONS:
        for epsilon in (0.1,) if quick else LEAK_EPSILONS[table]:
            for name in QUICK_LEAKS if quick else LEAKS:
                yield from (Cell(table, name, epsilon, seed=seed, marginals=_marginals(quick)) for seed in range(seeds))


def _marginals(quick: bool) -> int:
    return FEW_MARGINALS if quick else problems.MARGINALS
