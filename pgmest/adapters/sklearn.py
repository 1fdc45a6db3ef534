"""A density estimator with the interface of scikit-learn, for pipelines, cloning and cross-validation.

from pgmest.adapters.sklearn import DensityEstimator

estimator = DensityEstimator(bounds=(0, 100), epsilon=1.0).fit(X)
estimator.score_samples(X), estimator.sample(1000)
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.frames import ReadingWarning
from pgmest.data.values import Values
from pgmest.errors import ArgumentError, OptionalDependencyError
from pgmest.mechanisms.registry import named_mechanism
from pgmest.mechanisms.result import Result
from pgmest.privacy.budgets import DEFAULT_DELTA
from pgmest.schema.numerals import real_numbers
from pgmest.tables.domain import Domain

try:
    from sklearn.base import BaseEstimator, DensityMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise OptionalDependencyError.of("scikit-learn", "pgmest.adapters.sklearn") from None


class DensityEstimator(DensityMixin, BaseEstimator):
    """A private density of numeric columns: constant in each box of a grid, with weights from a mechanism.

    >>> X = np.random.default_rng(0).normal(50, 10, size=(1000, 2))
    >>> estimator = DensityEstimator(bounds=(0, 100), bins=5, rho=0.5, mechanism="mst").fit(X)
    >>> estimator.sample(3, random_state=0).shape, estimator.score_samples([[50, 50], [5, 95]]).argmax()
    ((3, 2), np.int64(0))

    Args:
        bounds: the public range of the columns: (low, high) for all, or one such pair for each. Values outside it are
            replaced by the nearest bound. There is no default: a range that is read from the data is not private.
        bins: the number of equal bins of every column, or one number for each column.
        missing: whether values that are not numbers (NaN, text) are a further value, which is drawn as NaN.
            Without it they count as the lowest bound, and a warning says so.
        mechanism: the name of the mechanism (`pgmest.mechanisms.registry`).
        epsilon, delta, rho: the budget, as for the mechanism.
        workload: cliques of columns that matter, named "x0", "x1", ...; None for the mechanism's default.
        backend: "opendp" for exact noise, which does not depend on `random_state`, or "simulation" for experiments.
        random_state: the seed of simulated noise and of tie-breaking.

    Attributes (after `fit`):
        result_: the result of the mechanism.
        edges_: the edges of the bins, for each column.
        n_features_in_, feature_names_in_: the number and the names of the columns.
    """

    def __init__(
        self,
        bounds: Any = None,
        bins: Any = 10,
        missing: bool = False,
        mechanism: str = "lamp",
        epsilon: float | None = None,
        delta: float | None = DEFAULT_DELTA,
        rho: float | None = None,
        workload: Any = None,
        backend: str = "opendp",
        random_state: Any = None,
    ):
        self.bounds = bounds
        self.bins = bins
        self.missing = missing
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.workload = workload
        self.backend = backend
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DensityEstimator:
        """Spend the budget on the rows of X, of shape (rows, columns), and return the estimator; y is ignored.

        No value in X raises an error, since an error would reveal a row: without `missing` a value that is not a number
        (NaN, text) counts as the lowest bound, as in the schemas of tables. X can have no rows.

        Raises:
            ArgumentError: if bounds or budget are missing, or a parameter is not valid; nothing was spent.
        """
        budget = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        mechanism = named_mechanism(self.mechanism, **budget, backend=self.backend)
        X = self._numbers(X, reset=True)
        self.edges_: list[np.ndarray] = _edges(self.bounds, self.bins, X.shape[1])
        sizes = (len(edges) - 1 + self.missing for edges in self.edges_)
        domain = Domain({f"x{column}": size for column, size in enumerate(sizes)})
        if np.isnan(X).any() and not self.missing:
            text = "some values of X are not numbers, and count as the lowest bound: say missing=True"
            warnings.warn(text, ReadingWarning, stacklevel=2)
        data = Dataset.from_codes(list(self._codes(X)), domain)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.result_: Result = mechanism.fit(data, self.workload, seed, progress=False)
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-density at each row of X, of shape (rows,); -inf outside the bounds.

        For NaN and text it is -inf, too, or with `missing` that of the other columns times the share of such values.
        """
        check_is_fitted(self)
        X = self._numbers(X, reset=False)
        data = Dataset.from_codes(list(self._codes(X)), self.result_.domain)
        logs = self.result_.model.log_prob(data)
        for column, edges in enumerate(self.edges_):
            absent = np.isnan(X[:, column]) & self.missing
            outside = ~((X[:, column] >= edges[0]) & (X[:, column] <= edges[-1])) & ~absent
            logs = np.where(outside, -np.inf, logs - np.where(absent, 0.0, np.log(edges[1] - edges[0])))
        return logs

    def score(self, X: Any, y: Any = None) -> float:
        """Return the log-likelihood of the rows of X; y is ignored."""
        return float(np.sum(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Return rows drawn from the density, of shape (n_samples, columns); missing values are NaN."""
        check_is_fitted(self)
        generator = np.random.default_rng(check_random_state(random_state).randint(2**31))
        records = self.result_.sample(n_samples, generator)
        drawn = []
        for edges, codes in zip(self.edges_, (column.astype(np.int64) for column in records.columns), strict=True):
            bins = np.minimum(codes, len(edges) - 2)
            values = generator.uniform(edges[bins], edges[bins + 1])
            drawn.append(np.where(codes > bins, np.nan, values))
        return np.stack(drawn, axis=1)

    def _numbers(self, X: Any, reset: bool) -> np.ndarray:
        """Return the rows as floats, NaN for values that are not numbers; raise only for X's shape, type or names."""
        X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported.")
        columns = [real_numbers(Values.of(X[:, column])).numbers for column in range(X.shape[1])]
        return np.stack(columns, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _codes(self, X: np.ndarray) -> Any:
        """Yield the bins of the values, column by column."""
        for column, edges in enumerate(self.edges_):
            absent = np.isnan(X[:, column])
            numbers = np.where(absent, edges[0], X[:, column])
            bins = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
            yield np.where(absent & self.missing, len(edges) - 1, bins)


def _edges(bounds: Any, bins: Any, columns: int) -> list[np.ndarray]:
    """Return the edges of the bins of each column."""
    allowed = "a public range (low, high) with low < high, or one for each column"
    try:
        ranges = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (columns, 2))
        counts = np.broadcast_to(np.asarray(bins), (columns,))
    except (TypeError, ValueError):
        raise ArgumentError.of("bounds", bounds, f"{allowed} ({columns}), and bins a number or one for each") from None
    if not (np.isfinite(ranges).all() and (ranges[:, 0] < ranges[:, 1]).all()):
        raise ArgumentError.of("bounds", bounds, allowed)
    if counts.dtype.kind not in "iu" or not (counts > 0).all():
        raise ArgumentError.of("bins", bins, "a positive integer, or one for each column")
    return [np.linspace(low, high, count + 1) for (low, high), count in zip(ranges, counts, strict=True)]
