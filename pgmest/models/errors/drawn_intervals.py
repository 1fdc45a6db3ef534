"""Intervals and standard errors of an answer, from drawn errors of the table that it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pgmest.errors import ArgumentError, PgmestError, QueryError, count_text
from pgmest.models.errors.classes import classes_of, number_of
from pgmest.models.errors.error_model import FEWEST, MOST_NUMBERS, ErrorModel
from pgmest.models.errors.plausible_tables import without_negative_counts
from pgmest.models.errors.possible_values import possible_values
from pgmest.models.intervals import Interval
from pgmest.models.protocol import EstimatedModel
from pgmest.models.question import Question
from pgmest.models.uncertainty import Uncertainty
from pgmest.queries import Kron
from pgmest.queries.matrices import Grouping
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase

MOST_CELLS = 500_000
"""The largest number of cells of a table whose errors are drawn."""
MOST_CALLS, MOST_NUMBERS_OF_CALLS = 200, 300_000
"""The largest number of draws of which a function is asked, and the largest number of their counts, but for the fewest
draws: each draw is a call, whose table is fitted to its margins before. 200 draws know an error to 5 %."""
NOISE_DRAWS, STEP, SPARE = 100, 1e-4, 0.05
"""The number of draws of noise by which a function's derivative is known, the share of them that is added, and the
largest share of the records that is added so that no count is negative."""
WHOLE = 0.02
"""Ends that are within this distance of a whole number are it: draws keep to ends up to about this many counts."""
LARGEST = 1e15
"""Ends are at most this, so that no weight of 0 makes them NaN."""
LEAST = 1e-300
"""Divisors are at least this."""
MOST_ATTRIBUTES = 10
"""The largest number of attributes of a table over classes: errors of all its margins are drawn."""


@dataclass(frozen=True, eq=False)
class DrawnAnswers:
    """An answer of a model, and what it would be in plausible true tables.

    Attributes:
        answer: the model's answer.
        errors: the draws' differences from it, or from the mean of the draws where the model has no answer,
            shape (draws, *answer.shape); NaN for an answer that no draw has.
        linear: whether the answer is a linear function of the table.
        least: the least value that is possible: 0 for counts; minus infinity where it is not known.
        most: the largest value that is possible; infinity where it is not known.
        middle: what the errors are differences from; None for the answer.
        noise: the standard error by noise alone of an answer that is not linear, as far as that is linear in the noise;
            None for other answers.
        basis: "measured" if one noisy table has all attributes, else "dependence".
        whole: whether the true answers are whole numbers, to which ends are moved outwards.
    """

    answer: Factor
    errors: np.ndarray
    linear: bool
    least: float | np.ndarray
    basis: str
    noise: np.ndarray | None = None
    most: float | np.ndarray = np.inf
    middle: np.ndarray | None = None
    whole: bool = False

    def stddev(self) -> Factor:
        """Return the root-mean-square error."""
        return Factor.owning(self.answer.domain, np.sqrt(np.mean(np.square(self.errors), axis=0)))

    def interval(self, level: float, about: str) -> Interval:
        """Return the ends that contain the truth with probability `level`.

        They are z standard errors from the answer. If the answer is no linear function of the table, they also contain
        this share of the draws, and, within the range of the draws, z standard errors by noise alone: where noise is
        as large as the counts, few draws are as uneven as true tables may be.
        """
        z = NormalDist().inv_cdf(0.5 + level / 2)
        reach, middle = z * self.stddev().values, self.answer.values if self.middle is None else self.middle
        low, high = middle - reach, middle + reach
        if not self.linear:
            ends = np.quantile(self.errors, [0.5 - level / 2, 0.5 + level / 2], axis=0) + middle
            low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
        if self.noise is not None:
            least, most = self.errors.min(axis=0), self.errors.max(axis=0)
            low = np.minimum(low, middle + np.maximum(-z * self.noise, least))
            high = np.maximum(high, middle + np.minimum(z * self.noise, most))
        low, high = np.fmax(low, self.least), np.fmin(high, self.most)
        if self.whole:
            certain = high - low <= WHOLE
            low, high = np.where(certain, low, np.floor(low + WHOLE)), np.where(certain, high, np.ceil(high - WHOLE))
        low, high = np.fmin(low, middle), np.fmax(high, middle)
        ends = [Factor.owning(self.answer.domain, end) for end in (low, high)]
        return Interval(ends[0], ends[1], level, "errors", about, self.basis)

    def uncertainty(self) -> Uncertainty:
        """Return the standard error; the bias is unknown, and 0."""
        bias = Factor.owning(self.answer.domain, np.zeros(self.answer.values.shape))
        return Uncertainty(self.answer, self.stddev(), bias, len(self.errors))


def drawn_answers(
    model: ModelBase,
    query: Any,
    clique: Iterable[str] | str | None = None,
    given: Mapping[str, int] | None = None,
    *,
    about: str = "table",
    seed: int = 0,
) -> DrawnAnswers:
    """Draw plausible true answers to a query.

    Args:
        model: a model with measurements.
        query, clique, given: as for `pgmest.interval`.
        about: "table", or "population" to add the sampling error of the table.
        seed: the seed of the draws.

    Raises:
        ArgumentError: the model has no known errors, the query is a function of a model that reads more than marginals
            and answers, or the table is too large.
        QueryError: the query does not fit, or is a function that fails for a drawn table.
        UnknownAttributeError, ...: as for `Model.answer`.
    """
    errors = error_model_of(model)
    domain, question = model.domain, Question.of(model.domain, query, clique, given).read_by(cast(Any, model))
    whole, place = domain.ordered((*question.names, *question.evidence)), domain.varying
    asked = tuple(name for name in whole if name in place)  # a single code adds nothing to the errors of the others
    found = {name: _level_of(domain, name, matrix) for name, matrix in question.factors.items()}
    levels = {name: labels for name, labels in found.items() if labels is not None and name in place}
    published = errors.published(asked) is not None
    if len(asked) > MOST_ATTRIBUTES or errors.facts or published or not errors.is_measured(asked):
        levels = {}  # facts and ends are about codes, and dependence that was not measured may cancel within groups
    if levels or domain.size(whole) > MOST_CELLS:
        errors, question = _over_classes(errors, question, whole, levels)
    cells, key = errors.tables.domain.size(whole), [seed, *map(place.index, asked)]
    calls = int(np.clip(MOST_NUMBERS_OF_CALLS // max(1, cells), FEWEST, MOST_CALLS)) if question.is_function else None
    shape = errors.tables.domain.project(whole).shape
    drawn = errors.draws(asked, calls, np.random.default_rng(key)).reshape(-1, *shape)
    table = errors.tables.project(whole)
    if about == "population":
        variances = errors.sampling_variances(whole, table + drawn)
        drawn = drawn + _sampling(variances, np.random.default_rng([seed, 1]))
    basis = "measured" if published or errors.is_measured(asked) else "dependence"

    def answered(counts: np.ndarray) -> Factor:
        return question.value(question.parts(counts[None], whole)[0])

    if not question.is_function:
        differences = question.apply(question.parts(drawn, whole))
        answer, least, most = answered(table), 0.0 if question.is_nonnegative else -np.inf, np.inf
        counted = published and about == "table"
        if counted:
            least, most = (answer.values + end for end in (differences.min(axis=0), differences.max(axis=0)))
        if counted and question.is_nonnegative:
            ends = np.minimum(errors.ends(asked), LARGEST).reshape(2, *shape)
            low, high = question.apply(question.parts(ends, whole))
            least, most = np.maximum(low, least), np.minimum(high, most)
        return DrawnAnswers(answer, differences, True, least, basis, most=most, whole=counted and question.is_whole)
    with np.errstate(divide="ignore", invalid="ignore"):  # tables without records of a group have no mean of it
        answer, count = answered(table), min(NOISE_DRAWS, len(drawn))
        noise = errors.draws(asked, count, np.random.default_rng(key), hidden=False).reshape(-1, *shape)
        noise = _by_noise(answered, table, noise)
        batches = np.array_split(drawn, max(1, drawn.size // MOST_NUMBERS))
        tables = (one for batch in batches for one in without_negative_counts(table + batch))
        values = _finite(np.stack([_drawn_value(answered, one, answer.values.shape) for one in tables]))
    middle = np.where(np.isfinite(answer.values), answer.values, np.mean(values, axis=0))
    totals = _plausible_totals(table, drawn, bool(question.evidence))
    possible = question.parts(errors.tables.possible(whole)[None], whole)[0]
    least, most = possible_values(lambda counts: question.value(counts).values, possible, totals, seed)
    least, most = np.fmin(least, values.min(axis=0)), np.fmax(most, values.max(axis=0))
    return DrawnAnswers(answer, values - middle, False, least, basis, noise, most, middle)


def _drawn_value(answered: Callable[[np.ndarray], Factor], table: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the value of the user's function for a drawn table.

    Raises:
        QueryError: the function fails, or makes a value of another shape than for the model's table.
    """
    try:
        found = answered(table).values
        if found.shape == shape:
            return found
        raise QueryError(
            f"the function makes {found.size} numbers for one table and {math.prod(shape)} for another one: let it "
            "make as many for each, with NaN where it has no value."
        )
    except PgmestError:
        raise
    except Exception as error:
        raise QueryError(
            f"the function fails for some tables that are as plausible as the model's ({type(error).__name__}: "
            f"{error}): let it return NaN where it has no value, such as a mean of no records."
        ) from error


def _finite(values: np.ndarray) -> np.ndarray:
    """Return values of draws in which those of draws without one are replaced by those of others.

    Args:
        values: the values, shape (draws, ...); those that no draw has become NaN.
    """
    flat = np.where(np.isfinite(values), values, np.nan).reshape(len(values), -1)
    for place in np.flatnonzero(np.isnan(flat).any(axis=0)):
        found = flat[~np.isnan(flat[:, place]), place]
        flat[:, place] = np.resize(found, len(flat)) if len(found) else np.nan
    return flat.reshape(values.shape)


def _plausible_totals(table: np.ndarray, drawn: np.ndarray, part: bool) -> tuple[float, float]:
    """Return the least and the largest number of records of a table that its drawn errors make plausible, and beyond.

    Args:
        table: the model's table.
        drawn: its drawn errors.
        part: whether the question is about some of its records only, and may be about none.
    """
    totals = float(table.sum()) + drawn.reshape(len(drawn), -1).sum(axis=1)
    low, high = float(totals.min()), float(totals.max())
    return 0.0 if part else max(2 * low - high, 0.0), max(2 * high - low, 0.0)


def _by_noise(answered: Callable[[np.ndarray], Factor], table: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the standard error of an answer by noise alone, if it were linear.

    Small parts of the noise are added to a table that has them to spare, so that no count is negative.
    """
    spare = np.abs(noise).max(axis=0)
    step = min(STEP, SPARE * float(np.abs(table).sum()) / max(float(spare.sum()), LEAST))
    base = table + step * spare
    before = answered(base).values
    slopes = np.stack([answered(base + step * one).values - before for one in noise]) / max(step, LEAST)
    squares = np.where(np.isfinite(slopes), np.square(slopes), 0.0).sum(axis=0)
    return np.sqrt(squares / np.maximum(np.isfinite(slopes).sum(axis=0), 1))


def _level_of(domain: Domain, name: str, matrix: Any) -> np.ndarray | None:
    """Return the groups of the coarsest level of which a query tells no codes of a group apart; None without one.

    Errors are drawn for all groups of the level, even if a query asks about one, as answers may be about several.
    """
    tree = domain.hierarchies.get(name)
    if tree is None:
        return classes_of(matrix, domain[name]) if isinstance(matrix, Grouping) else None
    classes = classes_of(matrix, domain[name])
    for level, size in tree.sizes.items():
        groups = tree.groups(level)
        first = np.unique(groups, return_index=True)[1]
        if size < tree.values and bool((classes == classes[first][groups]).all()):
            return groups
    return classes if isinstance(matrix, Grouping) else None


def error_model_of(model: ModelBase) -> ErrorModel:
    """Return the error model of a model, which is made at the first call.

    Raises:
        ArgumentError: the model does not know its measurements.
    """
    found = model.__dict__.get("_error_model")
    if found is None:
        known = model.known_errors
        if known is None:
            raise no_known_errors(model)
        found = ErrorModel.of(cast(EstimatedModel, model), known)
        object.__setattr__(model, "_error_model", found)
    return found


def no_known_errors(model: ModelBase) -> ArgumentError:
    """Return the error that a model does not know its measurements, and which call gives one that does."""
    kind, evidence = type(model).__name__, model.evidence
    if evidence:
        return ArgumentError(
            f"a {kind} that was conditioned on {', '.join(evidence)} has no intervals, since it has lost its "
            "measurements: ask the model before, with given=."
        )
    reason = model.no_error_bars or "it does not know the noisy answers that it was made from"
    remedy = f"{model.refittable_by or 'pgmest.estimate'} or {'another' if model.no_error_bars else 'a'} mechanism"
    return ArgumentError(
        f"a {kind} has no intervals here, since {reason}: ask the model that {remedy} returned, or give it the answers "
        "by model.knows(pgmest.KnownErrors(measurements))."
    )


def _over_classes(
    errors: ErrorModel, question: Question, whole: Clique, levels: Mapping[str, np.ndarray]
) -> tuple[ErrorModel, Question]:
    """Return errors and a question over classes of codes, of which the question asks alone.

    Args:
        errors: the errors over codes.
        question: the question.
        whole: the attributes of the question and of its evidence.
        levels: the groups of each code of attributes that the query asks about by level, with answers about levels.

    Raises:
        ArgumentError: the table over classes is too large, too.
    """
    domain, evidence = errors.tables.domain, question.evidence
    labels = {name: classes_of(factor, domain[name]) for name, factor in question.factors.items()}
    of_levels = math.prod(number_of(levels[n]) if n in levels else domain[n] for n in whole if n not in evidence)
    labels |= levels if of_levels <= MOST_CELLS else {}
    labels |= {name: (np.arange(domain[name]) == code).astype(np.int64) for name, code in evidence.items()}
    labels = {name: own for name, own in labels.items() if number_of(own) < domain[name]}
    reduced = errors.over_classes(labels, always=bool(levels))
    cells, classes = domain.size(whole), reduced.tables.domain.size(whole)
    if classes > MOST_CELLS or len(whole) > MOST_ATTRIBUTES:
        apart = "" if classes == cells else f", of which the query tells {count_text(classes)} apart"
        raise ArgumentError(
            f"the table of {', '.join(whole)} has {count_text(cells)} cells{apart}, and intervals need at most "
            f"{count_text(MOST_CELLS)} of at most {MOST_ATTRIBUTES} attributes: ask about fewer attributes, give a "
            "pg.Kron whose matrices have few different columns, such as sums over ranges of codes, or choose "
            'kind="noise".'
        )
    query = question.query
    if question.factors:
        first = {name: np.unique(own, return_index=True)[1] for name, own in labels.items()}
        query = Kron({n: one.matrix()[:, first[n]] if n in first else one for n, one in question.factors.items()})
    evidence = {name: 1 if name in labels else code for name, code in evidence.items()}
    return reduced, replace(question, domain=reduced.tables.domain, query=query, evidence=evidence)


def _sampling(tables: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw sampling errors of tables, which leave the number of records as it is."""
    errors = np.sqrt(tables) * generator.standard_normal(tables.shape)
    flat, mass = errors.reshape(len(tables), -1), tables.reshape(len(tables), -1)
    shift = flat.sum(axis=1, keepdims=True) * mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    return (flat - shift).reshape(tables.shape)
