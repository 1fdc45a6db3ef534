"""Errors of linked tables: distances of single tables, of what binds their rows together, and of whole parents."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from pgmest.data.linked import LinkedDataset
from pgmest.errors import DataError
from pgmest.queries.levels import cliques_by_level, level_kron
from pgmest.tables.domain import Clique

CLASSES: Mapping[str, str] = {
    "size": "how many rows a parent row has",
    "marginals": "single attributes and pairs of attributes of the table",
    "levels": "single attributes of the table at the levels of their hierarchies",
    "between": "an attribute of a table above x an attribute of the table, over the table's rows",
    "within": "an attribute of one row x an attribute of another row of the same parent, each parent with weight 1",
    "within_alike": "of these, the same attribute of both rows",
    "next": "an attribute of one row x an attribute of the next row of the same parent, if rows are in order",
    "someone": "the share of parents with at least one row of a value",
    "how_many": "the number of rows of a value: 0, 1, 2, 3 and more",
}
"""The classes of errors: total variation distances from 0 to 1, and for `someone` differences of shares."""

MOST_CELLS = 10_000
"""Tables of two attributes with more cells are left out."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.98
"""`someone` and `how_many` compare the values that this share of the true parents have in at least one row."""
MOST_COUNTED = 3
"""The number of rows of a value from which on they count alike in `how_many`."""


Labels = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class LinkedErrors:
    """The errors of linked tables. **Not private** if the first tables are not: they are computed without noise.

    Attributes:
        errors: table -> class -> name of what is compared -> its error.
        rows: table -> its number of rows in both.
    """

    errors: Mapping[str, Mapping[str, Mapping[str, float]]]
    rows: Mapping[str, tuple[int, int]]

    def mean(self, table: str, kind: str) -> float:
        """Return the mean error of a class; NaN if the class is empty for this table."""
        found = list(self.errors[table].get(kind, {}).values())
        return float(np.mean(found)) if found else float("nan")

    def worst(self, count: int) -> list[tuple[float, str, str, str]]:
        """Return the largest errors: the error, the table, the class, and what is compared.

        Tables of one row and another are listed once: a x b of another is that of b x a, transposed.
        """
        every: dict[object, tuple[float, str, str, str]] = {}
        for table, kinds in self.errors.items():
            for kind, name, error in ((kind, *item) for kind, found in kinds.items() for item in found.items()):
                compared = frozenset(name.removesuffix(" of another").split(" x "))
                if kind != "within_alike":
                    every.setdefault((round(error, 9), table, kind, compared), (error, table, kind, name))
        return sorted(every.values(), key=lambda one: -one[0])[:count]

    def to_json(self) -> dict[str, object]:
        """Return the errors as values of JSON."""
        return {"rows": {name: list(both) for name, both in self.rows.items()}, "errors": self.summary()}

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the mean of each class that is not empty, by table."""
        return {
            table: {kind: self.mean(table, kind) for kind in CLASSES if kinds.get(kind)}
            for table, kinds in self.errors.items()
        }

    def __str__(self) -> str:
        summary = self.summary()
        lines = [f"{'':14}" + "".join(f"{table:>14}" for table in summary)]
        for kind in CLASSES:
            if any(kind in found for found in summary.values()):
                cells = (f"{found[kind]:14.4f}" if kind in found else f"{'-':>14}" for found in summary.values())
                lines.append(f"{kind:14}" + "".join(cells))
        return "\n".join(lines)


def linked_errors(true: LinkedDataset, made: LinkedDataset, labels: Labels | None = None) -> LinkedErrors:
    """Return the distances of linked tables from the true ones, in the classes of `CLASSES`.

    Attributes with one value in the true table are left out. Both sides are compared as distributions, so their numbers
    of rows need not agree.

    Args:
        true: the true tables.
        made: the others, over the same tables and attributes.
        labels: table -> attribute -> a label of each code, for the names of errors.

    Raises:
        DataError: the tables, their parents or their attributes differ, or the root of one side has no rows.
    """
    described = [{name: (one.parent, one.domain) for name, one in side.tables.items()} for side in (true, made)]
    if described[0] != described[1]:
        raise DataError(f"the two have other tables or attributes: {true} and {made}; encode both by one schema.")
    if not len(true) or not len(made):
        raise DataError(f"table '{true.root}' of one of the two has no rows, so nothing can be compared.")
    errors = {}
    for name in true.order:
        sides = _Side(true, name), _Side(made, name)
        errors[name] = {"marginals": dict(_marginals(*sides)), "levels": dict(_levels(*sides))}
        if name != true.root:
            errors[name] = {"size": {"size": _distance(*(side.by_size() for side in sides))}, **errors[name]}
            errors[name] |= _bound(*sides, (labels or {}).get(name, {}))
    return LinkedErrors(errors, {name: (true.tables[name].rows, made.tables[name].rows) for name in true.order})


class _Side:
    """One table of one of the two sides."""

    def __init__(self, linked: LinkedDataset, name: str):
        self.linked, self.name = linked, name
        self.data = linked.tables[name].dataset
        self.domain = self.data.domain
        self.parents = 0 if name == linked.root else linked.tables[linked.link(name)[0]].rows

    def varied(self, name: str) -> list[str]:
        """Return the attributes of a table that have several values."""
        data = self.linked.tables[name].dataset
        return [attribute for attribute in data.domain if len(np.unique(data.column(attribute))) > 1]

    def by_size(self) -> np.ndarray:
        """Return the number of parent rows with each number of rows."""
        return np.bincount(self.linked.sizes(self.name))

    def between(self, above: str, a: str, b: str) -> np.ndarray:
        """Return the table of an attribute of a table above and one of this table, over the rows of this one."""
        theirs = self.linked.tables[above].dataset.column(a)[self.linked.ancestors(self.name, above)]
        size = self.domain[b]
        return np.bincount(theirs.astype(np.int64) * size + self.data.column(b))

    def held(self, attribute: str) -> csr_array:
        """Return how many rows of each parent row have each code, of shape (parents, codes)."""
        codes, rows = self.data.column(attribute).astype(np.int64), self.linked.link(self.name)[1]
        return csr_array((np.ones(len(codes)), (rows, codes)), shape=(self.parents, self.domain[attribute]))

    def within(self, a: str, b: str) -> np.ndarray:
        """Return the table of attributes of ordered pairs of rows of one parent, each parent with weight 1."""
        size = self.linked.sizes(self.name)
        weight = 1.0 / np.maximum(size * (size - 1), 1) * (size > 1)
        pairs = (self.held(a).multiply(weight[:, None]).T @ self.held(b)).toarray()
        codes = self.data.column(a).astype(np.int64) * self.domain[b] + self.data.column(b)
        alone = np.bincount(codes, weight[self.linked.link(self.name)[1]], pairs.size)
        return np.maximum(pairs.ravel() - alone, 0.0)

    def following(self, a: str, b: str) -> np.ndarray:
        """Return the table of attributes of a row and of the next one of the same parent, each pair with weight 1."""
        parents = self.linked.link(self.name)[1]
        order = np.argsort(parents, kind="stable")
        one, other = (self.data.column(name).astype(np.int64)[order] for name in (a, b))
        pairs = parents[order][1:] == parents[order][:-1]
        size = self.domain[b]
        return np.bincount(one[:-1][pairs] * size + other[1:][pairs], minlength=self.domain[a] * size)

    def numbers(self, attribute: str) -> np.ndarray:
        """Return how many parents have 0, 1, 2, ... rows of each code, of shape (codes, MOST_COUNTED + 1)."""
        counts, size = self.held(attribute).tocoo(), self.domain[attribute]
        kinds = MOST_COUNTED + 1
        number = np.minimum(counts.data.astype(np.int64), MOST_COUNTED)
        table = np.bincount(counts.col * kinds + number, minlength=size * kinds).reshape(size, kinds)
        table[:, 0] = self.parents - table[:, 1:].sum(axis=1)
        return table


def _marginals(true: _Side, made: _Side) -> Iterator[tuple[str, float]]:
    """Yield the errors of the single attributes of a table, and of their pairs."""
    names = true.varied(true.name)
    cliques: list[Clique] = [(name,) for name in names]
    cliques += [pair for pair in itertools.combinations(names, 2) if true.domain.size(pair) <= MOST_CELLS]
    tables = zip(*(side.data.project_many(cliques) for side in (true, made)), strict=True)
    for clique, (mine, theirs) in zip(cliques, tables, strict=True):
        yield " x ".join(clique), _distance(mine.datavector(), theirs.datavector())


def _levels(true: _Side, made: _Side) -> Iterator[tuple[str, float]]:
    """Yield the errors of the single attributes of a table at each coarser level of their hierarchies."""
    for name in true.varied(true.name):
        for (level,) in cliques_by_level(true.domain, (name,))[1:]:
            query = level_kron(true.domain, level)
            yield level, _distance(*(query.apply(side.data.project(name)) for side in (true, made)))


def _bound(true: _Side, made: _Side, labels: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return the errors of what binds the rows of a table to those above them and to one another."""
    names, linked = true.varied(true.name), true.linked
    found: dict[str, dict[str, float]] = {kind: {} for kind in CLASSES if kind not in ("size", "marginals", "levels")}
    for above in linked.path(true.name)[:-1]:
        for a, b in itertools.product(true.varied(above), names):
            if linked.tables[above].domain[a] * true.domain[b] <= MOST_CELLS:
                error = _distance(true.between(above, a, b), made.between(above, a, b))
                found["between"][f"{above}.{a} x {b}"] = error
    for a, b in itertools.product(names, names):
        if true.domain[a] * true.domain[b] <= MOST_CELLS:
            error = _distance(true.within(a, b), made.within(a, b))
            found["within"][f"{a} x {b} of another"] = error
            if a == b:
                found["within_alike"][a] = error
            if linked.tables[true.name].ordered:
                found["next"][f"{a} x {b} of the next"] = _distance(true.following(a, b), made.following(a, b))
    for name in names:
        mine, theirs = true.numbers(name), made.numbers(name)
        shares = [1 - table[:, 0] / max(side.parents, 1) for side, table in ((true, mine), (made, theirs))]
        for code in np.flatnonzero((shares[0] >= LEAST_SHARE) & (shares[0] <= MOST_SHARE)).tolist():
            value = f"{name} = {labels[name][code] if name in labels else f'code {code}'}"
            found["someone"][value] = float(abs(shares[0][code] - shares[1][code]))
            found["how_many"][value] = _distance(mine[code], theirs[code])
    return found


def _distance(mine: np.ndarray, theirs: np.ndarray) -> float:
    """Return the total variation distance of two tables as distributions; 1 if one of them is empty."""
    size = max(len(mine), len(theirs))
    both = [np.pad(np.asarray(one, dtype=np.float64), (0, size - len(one))) for one in (mine, theirs)]
    if not all(one.sum() > 0 for one in both):
        return float(both[0].sum() > 0 or both[1].sum() > 0)
    return 0.5 * float(np.abs(both[0] / both[0].sum() - both[1] / both[1].sum()).sum())
