"""Scores that a curator evaluates: a mechanism defines them without the records, and never sees their values.

`Curator.select` accepts `Scores` instead of a function of the records. They hold only public values (a model's
answers, weights, expected noise). The curator evaluates them, and keeps the exact scores as long as the mechanism keeps
the `Scores`. So no variable of a mechanism, no result and no traceback contains an exact score.

`noisy_scores` publishes scores with noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ScoreError, ShapeError
from pgmest.measurements.selection import MAX_VALUES, PaidSelection, ScoredMarginal
from pgmest.privacy.budgets import GDP, Budget, Rho
from pgmest.privacy.candidates import Candidates, Subset
from pgmest.privacy.noise import Noise, values_noise
from pgmest.privacy.selection import checked_numbers, selection_epsilon
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads.answers import answers
from pgmest.workloads.item import Item

if TYPE_CHECKING:
    from pgmest.privacy.curator import Curator

Candidate = TypeVar("Candidate", bound=Hashable)

TRIED = 8
"""The most rows and columns of the tables on which functions are validated."""
TABLES_AT_ONCE = 4096
"""The number of tables that are counted together, which bounds the memory."""
CELLS_AT_ONCE = 1 << 24
"""The number of cells whose distances are computed together: 128 MB of exact and 128 MB of expected counts."""
MANY_SCORES = 256
"""The number of distances from which loading the compiled kernel pays off."""


def answers_of(source: Any, items: Sequence[Item]) -> Iterable[np.ndarray]:
    """Return the answers of a dataset or a model to each item, each of shape (rows,)."""
    if any(item.query is not None for item in items) or not hasattr(source, "project_many"):
        return answers(source, items)
    if hasattr(source, "datavectors"):
        return source.datavectors([item.clique for item in items])
    return (table.datavector() for table in source.project_many([item.clique for item in items]))


class Scores(ABC, Generic[Candidate]):
    """A score for each candidate, as a function of the records that only a curator calls."""

    @abstractmethod
    def evaluate(self, data: Dataset, candidates: Sequence[Candidate]) -> list[float]:
        """Return the scores of these candidates. Implementations must not keep what they compute."""

    def check(self, domain: Domain, candidates: Sequence[Candidate]) -> None:
        """Raise ArgumentError if the score of some dataset could be NaN. This is checked before anything is paid."""


@dataclass(frozen=True, eq=False)
class Distance:
    r"""A weighted l1 distance of answers about the records from expected answers: $w (\lVert W x - y \rVert_1 - e)$.

    Attributes:
        item: the clique and its queries W.
        expected: the expected answers y, in counts, shape (rows,); those of a model, for instance.
        groups: the group number of each row, shape (rows,). If given, differences are summed within groups before their
            absolute values are taken.
        weight: the weight w; the weight of the item is not used.
        expected_error: the constant e, in counts.
    """

    item: Item
    expected: np.ndarray
    groups: np.ndarray | None = None
    weight: float = 1.0
    expected_error: float = 0.0

    def score(self, exact: np.ndarray) -> float:
        """Return the score for exact answers of shape (rows,)."""
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

    @cached_property
    def candidates(self) -> Candidates[Candidate]:
        """All candidates, for selections among some of them (`Candidates.some`)."""
        return Candidates(self.of)

    @cached_property
    def cells(self) -> np.ndarray:
        """The number of expected answers of each of `candidates`."""
        return np.array([len(distance.expected) for distance in self.of.values()], dtype=np.int64)

    @cached_property
    def marginals(self) -> np.ndarray:
        """The public form of each of `candidates` (`_scored`), objects."""
        found = np.empty(len(self.of), dtype=object)
        found[:] = list(map(_scored, self.of.values()))
        return found

    def kept(self, candidates: Sequence[Candidate]) -> list[ScoredMarginal | None]:
        """Return the public forms of these candidates, or an empty list if they are more than a run keeps."""
        if isinstance(candidates, Subset) and candidates.of is self.candidates:
            few = int(self.cells[candidates.places].sum()) <= MAX_VALUES
            return self.marginals[candidates.places].tolist() if few else []
        asked = [self.of[candidate] for candidate in candidates]
        few = sum([len(distance.expected) for distance in asked]) <= MAX_VALUES
        return list(map(_scored, asked)) if few else []

    def evaluate(self, data: Dataset, candidates: Sequence[Candidate]) -> list[float]:
        """Return the distances; the marginals are counted together."""
        asked = [self.of[candidate] for candidate in candidates]
        exact = answers_of(data, [distance.item for distance in asked])
        if len(asked) < MANY_SCORES or any(distance.item.query is not None for distance in asked):
            return [distance.score(values) for distance, values in zip(asked, exact, strict=True)]
        tables = list(exact)
        return [score for part in _parts(asked) for score in _scores_together(asked[part], tables[part])]

    def check(self, domain: Domain, candidates: Sequence[Candidate]) -> None:
        """Raise ArgumentError if an expected answer is not finite: distances from finite numbers are finite."""
        if _all_finite([self.of[candidate] for candidate in candidates]):
            return
        for candidate in candidates:
            distance = self.of[candidate]
            check_finite(candidate, distance.expected, distance.weight, distance.expected_error)


def _scores_together(asked: Sequence[Distance], exact: Sequence[np.ndarray]) -> list[float]:
    """Return the score of each distance for exact answers; they equal `Distance.score` up to rounding."""
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
    """Yield runs of consecutive distances to compute together: up to `TABLES_AT_ONCE` with up to `CELLS_AT_ONCE` cells.

    A single distance may have more cells.
    """
    start, cells = 0, 0
    for number, distance in enumerate(asked):
        cells += len(distance.expected)
        if number > start and (cells > CELLS_AT_ONCE or number - start >= TABLES_AT_ONCE):
            yield slice(start, number)
            start, cells = number, len(distance.expected)
    if start < len(asked):
        yield slice(start, len(asked))


def _all_finite(asked: Sequence[Distance]) -> bool:
    """Return True if all numbers are certainly finite, since their sum is; False needs a closer look."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(asked):
            total += float(np.concatenate([distance.expected for distance in asked[part]]).sum())
            total += sum([distance.weight + distance.expected_error for distance in asked[part]])
    return math.isfinite(total)


@dataclass(frozen=True, eq=False)
class TableScores(Scores[Clique]):
    """Scores that are a function of the candidate's table of counts.

    Attributes:
        function: a function of a table with a row for each code of the candidate's first attribute and a column for
            each cell of its other attributes. It must be a plain function: a closure or an object with a state could
            keep the exact counts.

    Raises:
        ArgumentError: if `function` is another kind of callable.
    """

    function: Callable[[np.ndarray], float]

    def __post_init__(self) -> None:
        plain = isinstance(self.function, FunctionType) and not self.function.__closure__
        if not plain and not isinstance(self.function, BuiltinFunctionType):
            raise ArgumentError.of("function", self.function, "a plain function, no closure")

    def evaluate(self, data: Dataset, candidates: Sequence[Clique]) -> list[float]:
        """Return the function's values."""
        found: list[float] = []
        for start in range(0, len(candidates), TABLES_AT_ONCE):
            tables = data.project_many(candidates[start : start + TABLES_AT_ONCE])
            found += [float(self.function(table.values.reshape(len(table.values), -1))) for table in tables]
        return found

    def check(self, domain: Domain, candidates: Sequence[Clique]) -> None:
        """Raise ArgumentError if the function returns NaN for a small table: empty, with one record, or uniform."""
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
    """Return the public information in a selection about the marginals that were not chosen.

    Besides public values it holds only which candidate was chosen.

    Args:
        scores: the scores that the curator was given.
        candidates: all candidates.
        chosen: the position of the chosen candidate.
        sensitivity: the sensitivity of a score.
        cost: the cost of the selection.
        monotone: whether the noise was halved.

    Returns:
        the selection; None unless the scores are distances of whole marginals and the choice was made by the
        exponential mechanism, or if its expected answers are more than a run keeps.
    """
    if not isinstance(scores, Distances) or not isinstance(cost, Rho | GDP):
        return None
    marginals = scores.kept(candidates)
    winner = marginals.pop(chosen) if marginals else None
    lost = tuple([one for one in marginals if one is not None])
    if winner is None or not lost:
        return None
    rate = selection_epsilon(cost) / ((1 if monotone else 2) * sensitivity)
    return PaidSelection(winner, lost, rate, len(candidates))


def _scored(distance: Distance) -> ScoredMarginal | None:
    """Return a distance of a whole marginal of several attributes in public form, and None for other distances."""
    if distance.item.query is not None or distance.groups is not None or len(distance.item.clique) < 2:
        return None
    return ScoredMarginal(distance.item.clique, distance.expected, distance.weight, distance.expected_error)


def check_finite(candidate: Any, expected: np.ndarray, *others: float) -> None:
    """Raise ArgumentError if an expected answer or another number of a distance is not finite."""
    if not (np.isfinite(expected).all() and all(map(math.isfinite, others))):
        raise ArgumentError.of("scores", candidate, "distances from finite numbers, with finite weights")


class Evaluated:
    """The scores of candidates as a function of the records. They were checked to be numbers.

    Args:
        scores: the scores.
        candidates: the candidates.
        memo: the curator's cache of computed scores.
    """

    def __init__(self, scores: Scores[Any], candidates: Sequence[Any], memo: MutableMapping[Any, Any]):
        self._scores = scores
        self._candidates = candidates
        self._memo = memo

    def __call__(self, data: Dataset) -> Sequence[float] | np.ndarray:
        memo, candidates = self._memo.setdefault(self._scores, {}), self._candidates
        if isinstance(candidates, Subset):
            known = memo.setdefault(candidates.of, {})
            if id(data) not in known:
                known[id(data)] = np.array(self._scores.evaluate(data, candidates.of), dtype=np.float64)
            return known[id(data)][candidates.places]
        known = memo.setdefault(id(data), {})  # a witness of an audit has two
        new = [candidate for candidate in dict.fromkeys(self._candidates) if candidate not in known]
        known.update(zip(new, self._scores.evaluate(data, new), strict=True))
        return [known[candidate] for candidate in self._candidates]


def as_function(
    scores: Any, candidates: Sequence[Any], domain: Domain, memo: MutableMapping[Any, Any]
) -> Callable[[Dataset], Any]:
    """Return the scores of the candidates as a function of the records. Each of the `Scores` is computed only once.

    Args:
        scores: `Scores`, or a function, which is returned as it is.
        candidates: the candidates.
        domain: the domain of the records.
        memo: the curator's cache of computed scores.

    Raises:
        ArgumentError: if `Scores` could be NaN.
    """
    if not isinstance(scores, Scores):
        return scores
    if not isinstance(candidates, Subset):
        scores.check(domain, candidates)
    elif candidates.of not in memo.setdefault(scores, {}):
        scores.check(domain, candidates.of)
        memo[scores][candidates.of] = {}
    return Evaluated(scores, candidates, memo)


def rehearse(function: Callable[[Dataset], Any], count: int, domain: Domain, public_total: int | None) -> None:
    """Validate a function of the records by calling it with an empty dataset.

    Most errors of such functions appear there: 0 / 0, the mean of nothing. `Scores` are not called, as their public
    parts were checked. Nothing is called if the number of records is public, as the dataset cannot be empty then.

    Raises:
        ArgumentError: if the function raises an error or returns NaN; nothing was spent.
        ShapeError: if it does not return `count` numbers; nothing was spent.
    """
    if isinstance(function, Evaluated) or public_total is not None:
        return
    nobody = Dataset.from_codes(np.empty((0, len(domain)), dtype=np.int64), domain)
    try:
        checked_numbers(function(nobody), count)
    except ShapeError:
        raise
    except Exception as error:
        found = "NaN" if isinstance(error, ScoreError) else f"{type(error).__name__}: {error}"
        raise ArgumentError(
            f"of a table without records the numbers cannot be computed ({found}). Nothing was spent, and no record "
            "was looked at. An empty table must have them, too."
        ) from None


# -- scores that are published with noise ----------------------------------------------------------------------------


def score_noise(sensitivity: float, candidates: int, spend: Budget) -> Noise:
    r"""Return the noise on a vector of m scores (`values_noise`).

    Args:
        sensitivity: the sensitivity of each score.
        candidates: the number of scores, m.
        spend: their cost.
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
    """Measure the score of every candidate with noise (`score_noise`).

    Args:
        curator: the curator of the records.
        candidates: the candidates.
        scores: their scores.
        sensitivity: the largest change of a score between neighbors.
        spend: the cost, of the budget's type.
        label: the label of the ledger's entry.

    Returns:
        the noisy scores, shape (candidates,).

    Raises:
        BudgetExceeded, BudgetTypeError: as for `Curator.measure`.
    """
    scored = as_function(scores, candidates, curator.domain, curator._memo)
    return curator.measure_values(scored, len(candidates), sensitivity, spend, label=label)
