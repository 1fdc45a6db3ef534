"""Scores that a curator evaluates: a mechanism states them without the records, and never sees what they come to.

`Curator.select` takes `Scores` in place of a function of the records. They hold nothing but what is public (a model's
answers, weights, expected noise); the curator evaluates them, and remembers the exact scores for as long as the
mechanism holds on to the `Scores`. So no variable of a mechanism, no result and no traceback has a true score in it.

Also here: scores published with noise (`noisy_scores`), and, for comparisons that are not private,
`release_remembering`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pgmest._base.errors import ArgumentError
from pgmest.data.dataset import Dataset
from pgmest.measurements.selection import PaidSelection, ScoredMarginal
from pgmest.privacy.budgets import GDP, Budget, Rho
from pgmest.privacy.noise import Noise, values_noise
from pgmest.privacy.selection import selection_epsilon
from pgmest.queries.workloads.answers import answers
from pgmest.queries.workloads.item import Item
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.groups import summed

if TYPE_CHECKING:
    from pgmest.privacy.curator import Curator

Candidate = TypeVar("Candidate", bound=Hashable)

TRIED = 8
"""Functions of tables are tried on tables with at most this number of rows and columns."""
TABLES_AT_ONCE = 4096
"""So many tables are counted together, which bounds the memory used."""
CELLS_AT_ONCE = 1 << 24
"""So many of their cells lie one after the other, 128 MB of either side."""
MANY_SCORES = 256
"""From this many distances the kernel is worth loading."""


def answers_of(source: Any, items: Sequence[Item]) -> Iterable[np.ndarray]:
    """The answers of a dataset or a model to each item, shape (rows,); of whole marginals without a detour."""
    if any(item.query is not None for item in items) or not hasattr(source, "project_many"):
        return answers(source, items)
    if hasattr(source, "datavectors"):
        return source.datavectors([item.clique for item in items])
    return (table.datavector() for table in source.project_many([item.clique for item in items]))


class Scores(ABC, Generic[Candidate]):
    """A score for each candidate, as a function of the records that only a curator calls."""

    @abstractmethod
    def evaluate(self, data: Dataset, candidates: Sequence[Candidate]) -> list[float]:
        """The scores of these candidates. It must not keep what it computes."""

    def check(self, domain: Domain, candidates: Sequence[Candidate]) -> None:
        """See that no records could have a score that is not a number, before anything is paid.

        Raises:
            ArgumentError: some could.
        """


@dataclass(frozen=True, eq=False)
class Distance:
    r"""A weighted l1 distance of answers about the records from expected ones: $w (\lVert W x - y \rVert_1 - e)$.

    Attributes:
        item: the clique and the queries W about it.
        expected: y, in counts, shape (rows,); of a model, for instance.
        groups: if given, the differences are summed within groups before absolute values are taken: the number of the
            group of each row, shape (rows,).
        weight: w; the weight of the item is not used.
        expected_error: e, in counts.
    """

    item: Item
    expected: np.ndarray
    groups: np.ndarray | None = None
    weight: float = 1.0
    expected_error: float = 0.0

    def score(self, exact: np.ndarray) -> float:
        """The score where these are the answers about the records, shape (rows,)."""
        errors = exact - self.expected
        if self.groups is not None:
            errors = np.bincount(self.groups, errors)
        return self.weight * (float(np.abs(errors).sum()) - self.expected_error)


@dataclass(frozen=True, eq=False)
class Distances(Scores[Candidate]):
    """Scores that are distances of the records from a model.

    >>> from pgmest.privacy import Curator, Rho
    >>> data = Dataset.from_codes([[0, 1, 1], [0, 0, 1]], {"sex": 2, "income": 2})
    >>> even = {name: Distance(Item((name,)), np.array([1.5, 1.5])) for name in data.domain}
    >>> curator = Curator(data, Rho(1000.0), backend="simulation", seed=0)
    >>> curator.select(["sex", "income"], Distances(even), 1.0, Rho(500.0)) in data.domain
    True

    Attributes:
        of: the distance of each candidate.
    """

    of: Mapping[Candidate, Distance]

    def evaluate(self, data: Dataset, candidates: Sequence[Candidate]) -> list[float]:
        """See `Scores`; marginals are counted together."""
        asked = [self.of[candidate] for candidate in candidates]
        exact = answers_of(data, [distance.item for distance in asked])
        if len(asked) < MANY_SCORES or any(distance.item.query is not None for distance in asked):
            return [distance.score(values) for distance, values in zip(asked, exact, strict=True)]
        tables = list(exact)
        return [score for part in _parts(asked) for score in _scores_together(asked[part], tables[part])]

    def check(self, domain: Domain, candidates: Sequence[Candidate]) -> None:
        """See `Scores`: counts are finite, so a distance from finite numbers is one."""
        if _all_finite([self.of[candidate] for candidate in candidates]):
            return
        for candidate in candidates:
            distance = self.of[candidate]
            _check_finite(candidate, distance.expected, distance.weight, distance.expected_error)


def _scores_together(asked: Sequence[Distance], exact: Sequence[np.ndarray]) -> list[float]:
    """The score of each where these are the answers about the records, as `Distance.score` has it but for rounding."""
    from pgmest.privacy.score_kernels import l1_distances

    groups = [distance.groups for distance in asked if distance.groups is not None]
    joined = np.concatenate(groups) if groups else np.empty(0, dtype=np.int64)
    grouped = np.array([distance.groups is not None for distance in asked])
    expected = np.concatenate([distance.expected for distance in asked])
    ends, distances = np.cumsum([len(values) for values in exact]), np.empty(len(asked))
    sums = np.empty(int(joined.max(initial=-1)) + 1)
    l1_distances(np.concatenate(exact), expected, ends, joined, grouped, sums, distances)
    return [
        distance.weight * (found - distance.expected_error)
        for distance, found in zip(asked, distances.tolist(), strict=True)
    ]


def _parts(asked: Sequence[Distance]) -> Iterator[slice]:
    """Consecutive distances that are computed together: at most `TABLES_AT_ONCE`, and of few cells unless it is one."""
    start, cells = 0, 0
    for number, distance in enumerate(asked):
        cells += len(distance.expected)
        if number > start and (cells > CELLS_AT_ONCE or number - start >= TABLES_AT_ONCE):
            yield slice(start, number)
            start, cells = number, len(distance.expected)
    if start < len(asked):
        yield slice(start, len(asked))


def _all_finite(asked: Sequence[Distance]) -> bool:
    """Whether a quick look sees that all numbers are finite: where their sum is, they are."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(asked):
            total += float(np.concatenate([distance.expected for distance in asked[part]]).sum())
            total += sum([distance.weight + distance.expected_error for distance in asked[part]])
    return math.isfinite(total)


@dataclass(frozen=True, eq=False)
class GroupedDistance:
    """How far the counts of a marginal are from expected ones, over groups of codes.

    Attributes:
        clique: the marginal.
        groups: for each of its attributes the group of each code, ranges numbered in order.
        expected: in counts, an axis for each attribute and an entry for each group.
    """

    clique: Clique
    groups: tuple[np.ndarray, ...]
    expected: np.ndarray

    def score(self, counts: np.ndarray) -> float:
        """The l1 distance; neighbors move it by no more than they move the counts in l1 (the triangle inequality)."""
        return float(np.abs(summed(counts, self.groups) - self.expected).sum())


@dataclass(frozen=True, eq=False)
class GroupedDistances(Scores[int]):
    """Distances over groups of codes; candidates are their positions.

    Attributes:
        of: the distances.
    """

    of: tuple[GroupedDistance, ...]

    def evaluate(self, data: Dataset, candidates: Sequence[int]) -> list[float]:
        """See `Scores`; marginals are counted together."""
        asked = [self.of[position] for position in candidates]
        tables = data.project_many([distance.clique for distance in asked])
        return [distance.score(table.values) for distance, table in zip(asked, tables, strict=True)]

    def check(self, domain: Domain, candidates: Sequence[int]) -> None:
        """See `Distances`."""
        for position in candidates:
            _check_finite(position, self.of[position].expected)


@dataclass(frozen=True, eq=False)
class CountExponents:
    """Integer exponents of cells and of their negations, linear in counts: for `Curator.draw`, which alone calls it.

    Attributes:
        cliques: the marginals whose cells these are.
        slope, taken: the exponents are slope * counts - taken, then the same with the other sign; shape (cells,).
    """

    cliques: tuple[Clique, ...]
    slope: int
    taken: np.ndarray

    def __call__(self, data: Dataset) -> np.ndarray:
        counts = np.concatenate([table.datavector() for table in data.project_many(self.cliques)])
        steps = self.slope * np.rint(counts).astype(np.int64) - self.taken
        return np.concatenate([steps, -steps])


@dataclass(frozen=True, eq=False)
class TableScores(Scores[Clique]):
    """Scores that are a function of the candidate's table of counts.

    Attributes:
        function: of a table with a row for each code of the candidate's first attribute and a column for each cell of
            its others. A plain function: a closure or an object with a state could keep what it is given.

    Raises:
        ArgumentError: another callable.
    """

    function: Callable[[np.ndarray], float]

    def __post_init__(self) -> None:
        plain = isinstance(self.function, FunctionType) and not self.function.__closure__
        if not plain and not isinstance(self.function, BuiltinFunctionType):
            raise ArgumentError.of("function", self.function, "a plain function, no closure")

    def evaluate(self, data: Dataset, candidates: Sequence[Clique]) -> list[float]:
        """See `Scores`."""
        found: list[float] = []
        for start in range(0, len(candidates), TABLES_AT_ONCE):
            tables = data.project_many(candidates[start : start + TABLES_AT_ONCE])
            found += [float(self.function(table.values.reshape(len(table.values), -1))) for table in tables]
        return found

    def check(self, domain: Domain, candidates: Sequence[Clique]) -> None:
        """See `Scores`: tried on small tables without records, with one, and with the same number in each cell."""
        shapes = ((domain[clique[0]], domain.size(clique[1:])) for clique in candidates)
        for shape in {(min(rows, TRIED), min(columns, TRIED)) for rows, columns in shapes}:
            one = np.zeros(shape)
            one[0, 0] = 1.0
            for table in (np.zeros(shape), one, np.ones(shape)):
                if math.isnan(score := float(self.function(table))):
                    raise ArgumentError.of("scores", score, f"numbers of every table, of an empty {shape} one, too")


def public_selection(
    scores: Any, candidates: Sequence[Any], chosen: int, sensitivity: float, cost: Budget, monotone: bool
) -> PaidSelection | None:
    """What a selection says of marginals that lost: of distances of whole marginals, by the exponential mechanism.

    Nothing of the records is in it but which candidate was chosen. None for other scores and mechanisms.

    Args:
        scores: as the curator was given them.
        candidates: all of them.
        chosen: the position of the winner.
        sensitivity: of a score.
        cost: of the selection.
        monotone: whether the noise was halved.
    """
    if not isinstance(scores, Distances) or not isinstance(cost, Rho | GDP):
        return None
    marginals = [scores.of[one] for one in candidates]
    winner = _scored(marginals[chosen])
    lost = tuple(one for place, one in enumerate(map(_scored, marginals)) if place != chosen and one is not None)
    if winner is None or not lost:
        return None
    rate = selection_epsilon(cost) / ((1 if monotone else 2) * sensitivity)
    return PaidSelection(winner, lost, rate, len(candidates))


def _scored(distance: Distance) -> ScoredMarginal | None:
    """A distance of a whole marginal of several attributes."""
    if distance.item.query is not None or distance.groups is not None or len(distance.item.clique) < 2:
        return None
    return ScoredMarginal(distance.item.clique, distance.expected, distance.weight, distance.expected_error)


def _check_finite(candidate: Any, expected: np.ndarray, *others: float) -> None:
    if not (np.isfinite(expected).all() and all(map(math.isfinite, others))):
        raise ArgumentError.of("scores", candidate, "distances from finite numbers, with finite weights")


class Evaluated:
    """Scores of candidates as a function of the records. It was checked that they are numbers.

    Args:
        scores: `Scores`.
        candidates: whose.
        memo: a curator's, where each score is kept once it is computed.
    """

    def __init__(self, scores: Scores[Any], candidates: Sequence[Any], memo: MutableMapping[Any, Any]):
        self._scores = scores
        self._candidates = candidates
        self._memo = memo

    def __call__(self, data: Dataset) -> list[float]:
        known = self._memo.setdefault(self._scores, {}).setdefault(id(data), {})  # a witness of an audit has two
        new = [candidate for candidate in dict.fromkeys(self._candidates) if candidate not in known]
        known.update(zip(new, self._scores.evaluate(data, new), strict=True))
        return [known[candidate] for candidate in self._candidates]


def as_function(
    scores: Any, candidates: Sequence[Any], domain: Domain, memo: MutableMapping[Any, Any]
) -> Callable[[Dataset], Any]:
    """The scores of the candidates as a function of the records; of `Scores` each is computed once.

    Args:
        scores: `Scores`, or a function already.
        candidates: whose scores.
        domain: of the records.
        memo: the curator's, where what was computed is kept.

    Raises:
        ArgumentError: `Scores` that could be no numbers.
    """
    if not isinstance(scores, Scores):
        return scores
    scores.check(domain, candidates)
    return Evaluated(scores, candidates, memo)


# -- scores that are published with noise ----------------------------------------------------------------------------


def score_noise(sensitivity: float, candidates: int, spend: Budget) -> Noise:
    r"""The noise on a vector of m scores, each of which neighbors move by at most `sensitivity` (`values_noise`).

    Args:
        sensitivity: of each score.
        candidates: m.
        spend: what they cost.
    """
    return values_noise(spend, candidates, sensitivity)[0]


def noisy_scores(
    curator: Curator,
    candidates: Sequence[Candidate],
    scores: Scores[Candidate],
    sensitivity: float,
    spend: Budget,
    *,
    label: str,
) -> np.ndarray:
    """The score of every candidate with noise (`score_noise`), shape (candidates,).

    Args:
        curator: has the records.
        candidates: whose scores.
        scores: what they are.
        sensitivity: the most that one score changes between neighbors.
        spend: what to pay, of the budget's type.
        label: what the ledger says it was for.

    Raises:
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    scored = as_function(scores, candidates, curator.domain, curator._memo)
    return curator.measure_values(scored, len(candidates), sensitivity, spend, label=label)


# -- not private -----------------------------------------------------------------------------------------------------


class Prepared(ABC):
    """A release whose preparation is a function of the records alone, and long: the curator keeps what it gives."""

    @abstractmethod
    def prepare(self, data: Dataset) -> Any:
        """What all answers are computed from. It must not keep it."""

    @abstractmethod
    def answer(self, prepared: Any, question: Any) -> Any:
        """What is released, in JSON's types. It must not keep what it is given."""


def release_remembering(curator: Curator, release: Prepared, question: Any, spend: Budget, *, label: str) -> Any:
    """`Curator.release` of an answer, prepared once: for comparisons, whose label must say that they are not private.

    Raises:
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """

    def answer(data: Dataset, generator: np.random.Generator) -> Any:
        if release not in curator._memo:
            curator._memo[release] = release.prepare(data)
        return release.answer(curator._memo[release], question)

    return curator.release(answer, spend, label=label)
