"""The record with the largest total weight of its cells: the NP-hard step of DualQuery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True)
class WeightedCell:
    """A cell of a marginal with the weight that a record in the cell gains.

    Attributes:
        clique: the attributes.
        codes: the code of each attribute.
        weight: the gain, negative for an unwanted cell, never 0.
    """

    clique: Clique
    codes: tuple[int, ...]
    weight: float


def gain(cells: Sequence[WeightedCell], record: dict[str, int]) -> float:
    """Return the sum of the weights of the cells that contain a record."""
    inside = (all(record[name] == code for name, code in zip(c.clique, c.codes, strict=True)) for c in cells)
    return float(sum(cell.weight for cell, hit in zip(cells, inside, strict=True) if hit))


def best_record(
    domain: Domain, cells: Sequence[WeightedCell], rng: np.random.Generator, time_limit: float
) -> tuple[dict[str, int], bool]:
    """Return the record with the largest gain, by mixed-integer programming (HiGHS), and whether that is proven.

    Attributes and codes that occur in no cell are drawn uniformly. After the time limit, the record is the better one
    of the solver's best record and of a greedy record, which is improved one attribute at a time.

    >>> wanted = [WeightedCell(("a", "b"), (0, 1), 2.0), WeightedCell(("a",), (1,), 1.0)]
    >>> cells = [*wanted, WeightedCell(("b",), (1,), -0.5)]
    >>> best_record(Domain({"a": 2, "b": 3}), cells, np.random.default_rng(0), time_limit=10.0)
    ({'a': 0, 'b': 1}, True)

    Args:
        domain: the attributes.
        cells: the weighted cells, such as the queries sampled in one step. The time grows with their number.
        rng: the source of the codes that do not affect the gain.
        time_limit: the time limit of the solver, in seconds.
    """
    named = {name: sorted({c.codes[c.clique.index(name)] for c in cells if name in c.clique}) for name in domain}
    neutral = {name: _unnamed(domain[name], codes, rng) for name, codes in named.items()}
    if not any(named.values()):  # cells without attributes are the same for all records
        return {name: int(code) for name, code in neutral.items() if code is not None}, True
    found, exact = _by_integer_programming(cells, named, neutral, time_limit)
    if exact and found is not None:
        return found, True
    greedy = _greedy(cells, named, neutral)
    return (greedy if found is None or gain(cells, greedy) > gain(cells, found) else found), False


def _unnamed(size: int, codes: Sequence[int], rng: np.random.Generator) -> int | None:
    """Return a random code that is not among `codes`; None if `codes` contains all."""
    others = np.setdiff1d(np.arange(size), codes, assume_unique=True)
    return int(rng.choice(others)) if others.size else None


def _by_integer_programming(
    cells: Sequence[WeightedCell], named: dict[str, list[int]], neutral: dict[str, int | None], time_limit: float
) -> tuple[dict[str, int] | None, bool]:
    """Solve the mixed-integer program; return its record, None without one, and whether the record is optimal.

    The binary variable z[a, v] states that attribute a has code v, and u[c] in [0, 1] that the record is in cell c.
    A cell of positive weight has the constraints u[c] <= z for each of its codes, a cell of negative weight
    u[c] >= sum z - (attributes - 1). With binary z the optimal u are binary.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    places = {pair: place for place, pair in enumerate((a, v) for a, codes in named.items() for v in codes)}
    first = len(places)
    entries: list[tuple[int, int, float]] = []  # row, column, value
    lower, upper = [], []

    def constrain(terms: list[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(lower), column, value) for column, value in terms)
        lower.append(least)
        upper.append(most)

    for name, codes in named.items():
        if codes:
            constrain([(places[name, code], 1.0) for code in codes], 1.0 if neutral[name] is None else 0.0, 1.0)
    for place, cell in enumerate(cells, start=first):
        columns = [places[pair] for pair in zip(cell.clique, cell.codes, strict=True)]
        if cell.weight > 0:
            for column in columns:
                constrain([(place, 1.0), (column, -1.0)], -np.inf, 0.0)
        else:
            constrain([(place, -1.0), *((column, 1.0) for column in columns)], -np.inf, len(columns) - 1.0)
    rows, columns, values = zip(*entries, strict=True)
    where = np.array([rows, columns], dtype=np.int32)  # HiGHS accepts int32 only; scipy 1.12 does not convert
    matrix = coo_array((values, tuple(where)), shape=(len(lower), first + len(cells))).tocsr()
    solved = milp(
        np.concatenate([np.zeros(first), [-cell.weight for cell in cells]]),
        integrality=np.concatenate([np.ones(first), np.zeros(len(cells))]),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix, np.array(lower), np.array(upper)),  # type: ignore[arg-type]
        options={"time_limit": time_limit},
    )
    if solved.x is None:
        return None, False
    record = {name: code for name, code in neutral.items() if code is not None}
    record |= {name: code for (name, code), place in places.items() if solved.x[place] > 0.5}
    return {name: record[name] for name in named}, solved.status == 0


def _greedy(
    cells: Sequence[WeightedCell], named: dict[str, list[int]], neutral: dict[str, int | None]
) -> dict[str, int]:
    """Return the best record of coordinate ascent, started from each cell of positive weight."""
    options = {name: [*codes, code] if (code := neutral[name]) is not None else codes for name, codes in named.items()}
    base = {name: codes[-1] for name, codes in options.items()}
    starts = [{**base, **dict(zip(cell.clique, cell.codes, strict=True))} for cell in cells if cell.weight > 0]
    return max((_climb(cells, start, options) for start in starts or [base]), key=lambda record: gain(cells, record))


def _climb(cells: Sequence[WeightedCell], record: dict[str, int], options: dict[str, list[int]]) -> dict[str, int]:
    """Change one attribute at a time, each time to the largest gain, until no change raises the gain."""
    value = gain(cells, record)
    while True:
        moves = [{**record, name: code} for name, codes in options.items() if len(codes) > 1 for code in codes]
        best = max(moves, key=lambda move: gain(cells, move), default=record)
        if gain(cells, best) <= value:
            return record
        record, value = best, gain(cells, best)
