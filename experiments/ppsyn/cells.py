"""The cells of the experiment: which mechanism is run on which table, and by what its records are judged."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
}
"""The letter with one parameter changed, to test causes."""
LETTER_EPSILONS = {"adult14": (0.1, 0.5, 2.0), "BR2000": (0.1, 0.5, 2.0), "loans": (0.1, 0.5)}
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
        drawn_again: whether the records are judged by ranges of other seeds, too.
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
        """Errors of 5-attribute ranges that other seeds draw."""
        return {f"ranges_5_of_{seed}": scores.range_error(self.table, records, 5, seed) for seed in RANGE_SEEDS}


@dataclass(frozen=True)
class SvmCell:
    """Five folds: records made from four of them train the machine, which is tested on the fifth.

    Attributes:
        table: the data.
        mechanism: the mechanism's name in pgmest, or "real records".
        epsilon: the budget, with `DELTA`.
    """

    table: str
    mechanism: str
    epsilon: float

    @property
    def name(self) -> str:
        """Return the name under which the result is kept."""
        return f"svm-{self.table}-{self.mechanism.replace(' ', '_')}-{self.epsilon:g}"

    def row(self) -> dict[str, Any]:
        """The rate of each fold."""
        named = {f"fold_{fold}": rate for fold, rate in enumerate(scores.svm_rates(self.table, self._synthesizer()))}
        return {"table": self.table, "mechanism": self.mechanism, "epsilon": self.epsilon, **named}

    def _synthesizer(self) -> Any:
        if self.mechanism == "real records":
            return None
        workload, mechanism = problems.workload(self.table, 3), made(self.mechanism, self.epsilon)
        return lambda train: mechanism.fit(train, workload, seed=0, progress=False).sample(seed=0)


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


def sweep() -> list[Cell]:
    """Figures 3 to 5 on Adult and BR2000; `letter` has Loans."""
    return _each(problems.TABLES[:2], EPSILONS, MECHANISMS)


def letter() -> list[Cell]:
    """PPSyn to the letter and the comparators as published, judged by ranges of several seeds."""
    return [
        replace(cell, drawn_again=True)
        for table, epsilons in LETTER_EPSILONS.items()
        for cell in _each([table], epsilons, (LETTER, *PLAIN))
    ]


def loans_etas() -> list[Cell]:
    """Figures 7c and 8c, with fewer values of eta than 7 and 8, for a run takes minutes; `letter` has the default."""
    default = [replace(cell, drawn_again=True) for cell in _each(["loans"], [PARAMETER_EPSILON], [LETTER])]
    return default + _each(["loans"], [PARAMETER_EPSILON], [LETTER], eta=LOANS_ETAS)


def support_vectors() -> list[SvmCell]:
    """Figure 6."""
    real = [SvmCell(table, "real records", 0.0) for table in problems.TARGETS]
    return real + [
        SvmCell(t, name, epsilon) for t in problems.TARGETS for epsilon in SVM_EPSILONS for name in MECHANISMS
    ]


def etas() -> list[Cell]:
    """Figures 7 and 8."""
    return _each(problems.TABLES[:2], [PARAMETER_EPSILON], [PUBLISHED], eta=ETAS)


def dimensions() -> list[Cell]:
    """Figure 9."""
    return _each(["BR2000"], [DIMENSION_EPSILON], [*MECHANISMS, INDEPENDENT], d=DIMENSIONS)


def leaks() -> list[Cell]:
    """The published algorithm with the leak closed, in parts and all of it; as published it is in `sweep`."""
    return [cell for table, epsilons in LEAK_EPSILONS.items() for cell in _each([table], epsilons, LEAKS)]


def _each(
    tables: Iterable[str],
    epsilons: Iterable[float],
    names: Iterable[str],
    d: Sequence[int] = (3,),
    eta: Sequence[float | None] = (None,),
) -> list[Cell]:
    """Every setting with every seed."""
    settings = itertools.product(tables, names, epsilons, d, eta, range(SEEDS))
    return [Cell(*setting) for setting in settings]
