"""True counts and scores never leave the curator: no variable of a mechanism, and no result, has one.

While a mechanism runs, every function of it is looked into when it is entered and when it ends: its variables, what
they contain, and what it returns.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import pgmest as pg
from pgmest import mechanisms
from pgmest.data.dataset import Dataset
from pgmest.mechanisms import Mechanism
from pgmest.mechanisms.estimation import estimate_measured
from pgmest.privacy import scores as private_scores
from pgmest.privacy.curator import Curator
from pgmest.privacy.grouped_distances import GroupedDistances
from pgmest.tables.factor import Factor
from tests.mechanisms.every import EVERY, made

ROOM = str(Path(mechanisms.__file__).parent)
DEPTH, WIDTH = 4, 400
LOOKS = 500
"""A function is looked into when it is entered and when it ends this many times, since some run a million times."""

PLAIN = frozenset({str, int, bool, type(None), np.int64, np.bool_})
"""The types of values without a secret, which are looked at by the million."""

CENSUS = pg.datasets.load("census").select(["sex", "race", "income>50K", "relationship"]).take(slice(0, 300))


@dataclass
class Secret:
    """The values that only a curator may have: records, tables counted from them, and scores computed from these."""

    records: list[Dataset] = field(default_factory=list)
    tables: list[Any] = field(default_factory=list)
    numbers: set[float] = field(default_factory=set)
    found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids: set[int] = set()

    def keep(self, table: Factor) -> Factor:
        self.tables.append(table.values)
        self._ids.add(id(table.values))
        return table

    def score(self, values: list[float]) -> list[float]:
        self.numbers |= {value for value in values if value != round(value, 3)}  # round ones occur by chance
        return values

    def inside(self, value: Any, depth: int = DEPTH) -> bool:
        if isinstance(value, Dataset):
            return any(value is records for records in self.records)
        if isinstance(value, Factor):
            return self.inside(value.values)
        if isinstance(value, np.ndarray):
            own = id(value) in self._ids or id(value.base) in self._ids
            return own or bool(value.dtype == np.float64 and self.numbers & set(value.reshape(-1)[:WIDTH].tolist()))
        if isinstance(value, float):
            return value in self.numbers
        if depth == 0 or isinstance(value, Curator | str | type):
            return False
        if isinstance(value, dict):
            return any(self.inside(part, depth - 1) for pair in list(value.items())[:WIDTH] for part in pair)
        if isinstance(value, list | tuple | set | frozenset):
            parts = (part for part in list(value)[:WIDTH] if type(part) not in PLAIN)
            return any(self.inside(part, depth - 1) for part in parts)
        if type(value).__module__.startswith(
            ("pgmest.mechanisms", "pgmest.privacy.scores", "pgmest.privacy.grouped_distances", "tests.")
        ):
            return any(self.inside(part, depth - 1) for part in getattr(value, "__dict__", {}).values())
        return False


@contextmanager
def watched(monkeypatch, *places):
    """Return the secret values that code in these files sees, as "function: variable"."""
    secret, looks = Secret(), Counter()
    init, through = Curator.__init__, Curator.through
    project, project_many = Dataset.project, Dataset.project_many

    def remember(curator, *args, **options):
        init(curator, *args, **options)
        secret.records.append(curator._data)

    def recode(curator, transform):
        recoded = through(curator, transform)
        secret.records.append(recoded._data)
        return recoded

    def projected(data, attributes):
        table = project(data, attributes)
        return secret.keep(table) if secret.inside(data) else table

    def projected_many(data, cliques):
        tables = project_many(data, cliques)
        return [secret.keep(table) for table in tables] if secret.inside(data) else tables

    monkeypatch.setattr(Curator, "__init__", remember)
    monkeypatch.setattr(Curator, "through", recode)
    monkeypatch.setattr(Dataset, "project", projected)
    monkeypatch.setattr(Dataset, "project_many", projected_many)
    for kind in (private_scores.Distances, private_scores.TableScores, GroupedDistances):
        evaluate = kind.evaluate
        monkeypatch.setattr(kind, "evaluate", lambda self, *args, do=evaluate: secret.score(do(self, *args)))

    def look(frame, event, argument):
        if event in ("call", "return") and frame.f_code.co_filename.startswith(places):
            looks[id(frame.f_code)] += 1
            if looks[id(frame.f_code)] > 2 * LOOKS:
                return
            seen = dict(frame.f_locals)
            if event == "return":
                seen["return"] = argument
            for name, value in seen.items():
                if secret.inside(value):
                    secret.found.append(f"{frame.f_code.co_name}: {name}")

    sys.setprofile(look)
    try:
        yield secret
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", EVERY)
def test_no_variable_of_a_mechanism_has_a_true_table_or_score(name, monkeypatch):
    given = {"PMWPub": {"public": CENSUS.take(slice(0, 50))}, "TopDown": {"spine": "race"}}
    mechanism = made(name, **given.get(name, {}))
    with watched(monkeypatch, ROOM) as secret:
        result = mechanism.fit(CENSUS, seed=0, progress=False)
    assert secret.tables
    assert secret.found == []
    assert not secret.inside(vars(result))
    assert not secret.inside(vars(mechanism))


@dataclass(frozen=True, kw_only=True)
class Leaks(Mechanism):
    """The case that must be found: a closure that keeps true scores, and one that has seen a true table."""

    definition: ClassVar[str] = "zcdp"
    way: str = "scores"

    def run(self, curator, workload, rng):
        pairs, kept = list(combinations(curator.domain, 2)), {}

        def scores(data):
            for pair in pairs:
                kept[pair] = float(data.project(pair).values.std())
            return list(kept.values())

        def records(data):
            return [float(len(data.project(pair).values)) for pair in pairs]

        curator.select(pairs, scores if self.way == "scores" else records, 1.0, curator.budget / 2)
        curator.measure(pairs[0], curator.remaining)
        return estimate_measured(curator)


@pytest.mark.parametrize("way", ["scores", "records"])
def test_a_mechanism_that_looks_is_found(way, monkeypatch):
    with watched(monkeypatch, __file__) as secret:
        Leaks(rho=1.0, backend="simulation", way=way).fit(CENSUS, seed=0, progress=False)
    assert "scores: data" in secret.found or "records: data" in secret.found


def test_no_file_of_a_mechanism_touches_what_a_curator_hides():
    hidden = {"_data", "_memo", "_backend", "_account", "_pay"}
    touched = []
    for path in sorted(Path(ROOM).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in hidden:
                touched.append(f"{path.name}:{node.lineno} {node.attr}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "release":
                touched.append(f"{path.name}:{node.lineno} release")
    assert touched == []
