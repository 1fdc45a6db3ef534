r"""UnitErrors: how far totals and means over whole units may be from the truth, such as households with their persons.

Let the data have $b (1 + e_u)$ units like each synthetic unit u, where b is the estimated number of units for each
synthetic one. A question about whole units is a sum over u of a value times this number, and so is every noisy answer
(`noisy_answers`), plus its noise. Before the answers, the $e_u$ are taken to be independent, normal, and as large as
makes the standard error of the mean of any value `model_error` times its standard deviation between units, but for a
common part, as nothing is known about the number of all units. Given the answers they are normal with the precision
$Z Z^T + P$, for Z what units add to the answers relative to the noise, and P the precision before. So what the answers
determine has the error of their noise, and what they do not has that of the model, in one formula. The noisy answers
differ from the synthetic ones; what this difference means for a question is added as a bias.

Answers about many cells fit the value of any synthetic unit, since few others share its cells, but not those of other
units in these cells. So the model's part of an error is that of residuals which are corrected for it, as in regressions
with heteroscedastic errors: the square of a unit's residual is divided by the share l of its value that the answers do
not fit, or by (l / `LEFT_OUT`) ^ 2 if this is smaller, where the residual over l is that of a fit without the unit.

What the answers say about a value, whatever their noise, is the share of its variance between units that a regression
on what units add to the answers predicts, for units that the regression has not seen (`UnitErrors.undetermined`). The
answers are about single columns, pairs of columns, and pairs of rows. So they determine how many units have two rows
with a code, and not in how many units two certain rows are ten years apart.

The records are not read: the answers, the synthetic units and the public limits are all that is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pgmest._base.progress import progress
from pgmest.data.linked import LinkedDataset
from pgmest.errors import ArgumentError
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.size_limits import SizeLimits
from pgmest.mechanisms.linked.trees import family_table
from pgmest.mechanisms.linked.unit_rows import noisy_answers

MODEL_ERROR = 0.2
"""The least standard error of the mean of a value over units that no answer is about, relative to the standard
deviation of the value between units. It was chosen so that intervals hold on three tables, at four budgets
(`experiments.households.whole`)."""
LEFT_OUT = 0.5
"""The share of the residual of a fit without a unit that counts. With all of it, intervals at an epsilon of 10 were up
to four times as wide as needed; without it, those after answers over 101 ages held the truth in 84 % of the cases, not
in 96 % (anytown, epsilon 10)."""
MOST_UNITS = 3_000
"""The number of synthetic units from which errors are found. With half as many, the answers fit them so closely
that errors are too small."""
AT_ONCE = 2_000
"""The number of noisy numbers that are taken into account at once."""


@dataclass(frozen=True, eq=False)
class UnitErrors:
    """The errors of totals over units.

    Attributes:
        pool: the positions of the synthetic units from which errors are found, ascending.
        units: the number of synthetic units.
        scale: the estimated number of units of the data for each synthetic one.
        factor: the lower Cholesky factor of the precision of their numbers, relative to the estimated ones.
        moved: what the noisy answers say about these numbers beyond the synthetic ones, times the factor's transpose.
        left: the root of the variance that the correction of the residual of each unit adds.
        unseen: the standard error of a number of units of a kind that does not occur among the synthetic ones.
        products: the inner products of what units add to the answers, relative to the noise; the lower half.
        one_unit: the square of one unit, relative to the noise, in the median answer.
    """

    pool: np.ndarray
    units: int
    scale: float
    factor: np.ndarray
    moved: np.ndarray
    left: np.ndarray
    unseen: float
    products: np.ndarray
    one_unit: float

    @classmethod
    def of(cls, linked: LinkedDataset, runs: Mapping[str, FamilyModel]) -> UnitErrors:
        """Return the errors of totals over synthetic units.

        Args:
            linked: the synthetic linked tables.
            runs: for each child table, the model of its run.

        Raises:
            ArgumentError: there are no synthetic units.
        """
        from scipy.linalg import cholesky, lapack, solve_triangular

        units = len(linked)
        if not units:
            raise ArgumentError(
                f"there are no synthetic rows of '{linked.root}' from which errors of whole units follow: the noise is "
                "larger than the table. Raise epsilon."
            )
        pool = np.sort(np.random.default_rng(0).permutation(units)[:MOST_UNITS])
        part = linked.take(pool)
        first = next(iter(runs.values()))
        scale = max(first.total, 1.0) / units
        precision = np.zeros((len(pool), len(pool)), order="F")
        drift, waiting, weights = np.zeros(len(pool)), list[np.ndarray](), list[float]()
        per_unit = scale * units / len(pool)
        number = sum(len(model.above) + len(model.lengths) + len(model.numbers) for model in runs.values())
        with progress("finding errors of whole units", number) as more:
            for child, model in runs.items():
                whole, some = (_families(one, child, model.layout) for one in (linked, part))
                owners = part.units(part.link(child)[0])
                for answer in noisy_answers(model):
                    rows = _of_units(answer.rows(some), owners, len(pool)) * (per_unit / answer.stddev)
                    drift += rows @ ((answer.values - scale * answer.total(whole)) / answer.stddev)
                    waiting.append(rows)
                    weights.append(float(np.mean(np.square(per_unit / answer.stddev))))
                    if sum(one.shape[1] for one in waiting) >= AT_ONCE:
                        _add_products(precision, waiting)
                    more(1)
            _add_products(precision, waiting)
        products, one_unit = precision.copy(order="F"), float(np.median(weights)) if weights else 1.0
        error = model_error(runs.values(), scale * units)
        least = 1 / (error**2 * len(pool))
        relative = first.total_stddev / (scale * units)
        common = 1 + relative**2  # the variance of what all units have in common
        precision -= least**2 / (1 / common + len(pool) * least)
        precision[np.diag_indices(len(pool))] += least
        factor = cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
        moved = solve_triangular(factor, drift, lower=True, check_finite=False)
        inverse = lapack.dtrtri(factor, lower=1)[0]  # type: ignore[attr-defined]
        share = np.minimum(least * np.square(np.tril(inverse)).sum(axis=0), 1.0)
        left = np.sqrt(least * (np.maximum(1 / share, np.square(LEFT_OUT / share)) - 1))
        any_kind = first.total_stddev * min(relative, 1.0) ** 2  # what noise larger than the table hides
        unseen = math.hypot(error * math.sqrt(units) * scale, any_kind)
        return cls(pool, units, scale, factor, moved, left, unseen, products, one_unit)

    def totals(self, values: np.ndarray, one: np.ndarray) -> Errors:
        """Return the errors of totals over units.

        Args:
            values: the value of each unit of the pool in each total, shape (units of the pool, totals).
            one: the value that a unit which does not occur among the synthetic ones may have, shape (totals,). Its
                error, if no answer is about it, is always part of the errors.
        """
        from scipy.linalg import solve_triangular

        per_unit = self.scale * self.units / len(self.pool)
        half = solve_triangular(self.factor, values * per_unit, lower=True, check_finite=False)
        residual = solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False)
        both = np.vstack([half, self.left[:, None] * residual])
        return Errors(both, self.moved @ half, self.unseen * one)

    def undetermined(self, values: np.ndarray) -> np.ndarray:
        """Return the root-mean-square of the part of each value that the answers do not determine, shape (totals,).

        It is the residual of a regression on what units add to the answers, of a unit that the regression has not
        seen. The ridge is one unit in an answer, so the noise of the answers does not matter.

        Args:
            values: the value of each unit of the pool in each total, shape (units of the pool, totals).
        """
        from scipy.linalg import solve_triangular

        factor, share = self._without_noise
        half = solve_triangular(factor, values, lower=True, check_finite=False)
        residual = solve_triangular(factor, half, lower=True, trans=1, check_finite=False) / share[:, None]
        return np.sqrt(np.square(residual).mean(axis=0))

    @cached_property
    def _without_noise(self) -> tuple[np.ndarray, np.ndarray]:
        """The factor of the precision with a ridge of one unit, and the diagonal of its inverse."""
        from scipy.linalg import cholesky, lapack

        precision = self.products.copy(order="F")
        precision[np.diag_indices(len(self.pool))] += self.one_unit
        factor = cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
        inverse = lapack.dtrtri(factor, lower=1)[0]  # type: ignore[attr-defined]
        return factor, np.square(np.tril(inverse)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of several totals.

    Attributes:
        half: for each total a vector; the inner product of two is the covariance of what noise and the model make of
            them.
        bias: what the noisy answers say about each total beyond the synthetic one.
        unseen: the standard error for units that do not occur among the synthetic ones.
    """

    half: np.ndarray
    bias: np.ndarray
    unseen: np.ndarray

    @property
    def stddev(self) -> np.ndarray:
        """The standard errors."""
        return np.sqrt(np.square(self.half).sum(axis=0) + np.square(self.bias) + np.square(self.unseen))

    def covariance(self, other: Errors) -> np.ndarray:
        """Return the covariance of each total with the same one, or the only one, of others."""
        return (self.half * other.half).sum(axis=0) + self.bias * other.bias


def model_error(runs: Iterable[FamilyModel], total: float) -> float:
    """Return the standard error of a mean that no answer is about, relative to the standard deviation of the value.

    It is at least `MODEL_ERROR`, and grows with the dependence that noise hides: with the standard error that the
    correlation of two values has in a measured table of two attributes, where each value has half of the units. With
    noise of standard deviation s in each of K cells, that is $\\sqrt{K} s / n$ for n units. The median of the tables
    counts; without one, nothing is known about dependence.

    Args:
        runs: the models of the runs.
        total: the estimated number of units.
    """
    lengths = [answer for run in runs for answer in run.lengths if len(answer.clique) == 2]
    noise = [math.sqrt(answer.values.size) * answer.stddev / max(total, 1.0) for answer in lengths]
    return math.hypot(MODEL_ERROR, min(float(np.median(noise)), 1.0) if noise else 1.0)


def _families(linked: LinkedDataset, child: str, layout: Layout) -> Families:
    """Return the families of a child table as a run saw them, whose limits may be lower than the public ones."""
    families = family_table(linked, child)
    own = families.layout
    if own == layout:
        return families
    ends = {name: layout.domain[name] - 1 for name in own.parents if layout.domain[name] < own.domain[name]}
    ends |= {name: layout.domain[name] - 2 for name in own.members if layout.domain[name] < own.domain[name]}
    limited = SizeLimits(own, ends).families(families)
    return Families(layout, limited.parents, limited.children)


def _of_units(rows: Any, owners: np.ndarray, units: int) -> np.ndarray:
    """Return the sums of the rows of each unit."""
    from scipy import sparse

    to: Any = sparse.csr_matrix((np.ones(len(owners)), (owners, np.arange(len(owners)))), (units, len(owners)))
    return (to @ rows).toarray()


def _add_products(precision: np.ndarray, waiting: list[np.ndarray]) -> None:
    """Add the inner products of rows to the lower half of a matrix, and forget the rows."""
    from scipy.linalg import blas

    if waiting:
        blas.dsyrk(  # type: ignore[attr-defined]
            1.0, np.hstack(waiting), beta=1.0, c=precision, lower=1, overwrite_c=1
        )
        waiting.clear()
