r"""Weighted answers of a model whose records carry their survey weight as an attribute.

A weighted count is a linear query: the sum over the weight's codes of the code's weight times the count. So a model
answers it as it answers any query, and `pgmest.interval` gives its ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, QueryError, UnknownAttributeError
from pgmest.models.error_bars import interval
from pgmest.models.intervals import Interval, check_level
from pgmest.queries import Kron
from pgmest.queries.levels import named_levels, weighted_kron
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


@dataclass(frozen=True, eq=False)
class WeightAttribute:
    """The attribute that holds the weight of each record; `Schema.weight.attribute` is that of a schema.

    >>> import pgmest as pg
    >>> table = pg.LinearMeasurement([[4, 1], [2, 3]], ("sex", "w"), stddev=1.0)
    >>> model = pg.estimate([table], {"sex": 2, "w": 2})
    >>> weight = WeightAttribute("w", np.array([10.0, 30.0]), np.array([20.0, 20.0]))
    >>> weight.table(model, "sex").totals.values.round(3)
    array([ 70., 110.])

    Attributes:
        name: the attribute.
        values: the weight of each code, shape (codes,): the middle of its bin.
        widths: the distance between the ends of each code's bin, shape (codes,).
    """

    name: str
    values: np.ndarray
    widths: np.ndarray

    @property
    def squares(self) -> np.ndarray:
        """The mean of the squared weights of each code, uniform in its bin."""
        return self.values**2 + self.widths**2 / 12.0

    def table(
        self, model: Any, attributes: Iterable[str] | str, given: Mapping[str, np.ndarray] | None = None
    ) -> WeightedTable:
        """Return the weighted table of some attributes, as a model estimates it.

        Args:
            model: a model that has the attribute of the weight, such as `Synthesizer.model_`.
            attributes: the attributes of the table; () for the sum of all weights.
            given: attribute -> 1 for each code of the records that count and 0 for others; all records by default.

        Raises:
            UnknownAttributeError: the model lacks an attribute, or the weight.
            QueryError: the weight is among the attributes.
        """
        self.query(model.domain, attributes)
        clique = tuple(one.name for one in named_levels(model.domain, attributes))
        return WeightedTable(model, self, clique, given or {})

    def query(
        self, domain: Domain, attributes: Iterable[str] | str, given: Mapping[str, np.ndarray] | None = None
    ) -> Kron:
        """Return the query that adds up the weights in each cell of some attributes; `given` is as for `table`.

        Its sensitivity is the largest weight: `Curator.measure` scales noise to it.

        Raises:
            UnknownAttributeError: the domain lacks an attribute, or the weight.
            QueryError: the weight is among the attributes.
        """
        return self._query(domain, attributes, self.values, given or {})

    def squared(
        self, domain: Domain, attributes: Iterable[str] | str, given: Mapping[str, np.ndarray] | None = None
    ) -> Kron:
        """Return the query that adds up the squares of the weights in each cell."""
        return self._query(domain, attributes, self.squares, given or {})

    def _query(
        self, domain: Domain, attributes: Iterable[str] | str, values: np.ndarray, given: Mapping[str, np.ndarray]
    ) -> Kron:
        if self.name not in domain:
            raise UnknownAttributeError.of(self.name, list(domain))
        if any(one.attribute == self.name for one in named_levels(domain, attributes)):
            raise QueryError(f"'{self.name}' is the weight; weighted answers are about the other attributes.")
        return weighted_kron(domain, attributes, {**given, self.name: values * given.get(self.name, 1.0)})


@dataclass(frozen=True, eq=False)
class WeightedTable:
    """The weighted counts of the cells of some attributes, as a model estimates them.

    Attributes:
        model: the model.
        weight: its attribute that holds the weights.
        attributes: the attributes of the table.
        given: attribute -> 1 for each code of the records that count and 0 for others.
    """

    model: Any
    weight: WeightAttribute
    attributes: Clique
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def totals(self) -> Factor:
        """The sum of the weights in each cell: the estimated number in the population, if weights are expansions."""
        return self._answer(self._query)

    @property
    def shares(self) -> Factor:
        """The share of each cell in the sum of all weights.

        Raises:
            QueryError: all weights are 0.
        """
        totals = self.totals
        whole = float(totals.values.sum())
        if not whole > 0.0:
            raise QueryError("the weights of all records are 0, so there are no shares.")
        return totals / whole

    @property
    def sampling_stderr(self) -> Factor:
        r"""The standard error of the totals that the sampling causes, as if units were drawn with replacement.

        The sum of all weights $W$ is taken as fixed, as calibrated weights have it:
        $\sum_i w_i^2 (y_i - p)^2$ with the cell's indicator y and share p (linearization of a ratio).
        """
        whole, squares_of_all = self._sums_of_all
        p = self.totals.values / max(whole, np.finfo(float).tiny)
        inside = self._answer(self.weight.squared(self.model.domain, self.attributes, self.given)).values
        outside = squares_of_all - inside
        return Factor(self._domain, np.sqrt(np.maximum(inside * (1.0 - p) ** 2 + outside * p**2, 0.0)))

    @property
    def range_stderr(self) -> Factor:
        """The standard error of the totals because only the bin of each weight is known.

        The mean weight of the records of a bin is taken as anywhere in the bin, the same for all cells.
        """
        domain, names = self.model.domain, (*self.attributes, self.weight.name)
        counts = self.model.answer(weighted_kron(domain, names, self.given)).values
        counts = np.asarray(counts).reshape(*self._domain.shape, domain[self.weight.name])
        off = np.sqrt(np.sum((counts * self.weight.widths) ** 2, axis=-1) / 12.0)
        return Factor(self._domain, off)

    def interval(
        self, level: float = 0.95, about: str = "population", design_effect: float = 1.0, **options: Any
    ) -> Interval:
        """Return the ends of the totals.

        Args:
            level: the probability that goes with the ends.
            about: "table" for the weighted counts of the sample, whose ends are those of the noise and of the bins of
                weights; or "population" for what the sample estimates: the sampling variance is added.
            design_effect: the factor by which the design makes sampling variances larger (clusters) or smaller
                (strata) than independent draws with these weights, from public knowledge of the survey. Sampling
                errors have Student's t distribution: its degrees of freedom are Kish's number of records over
                `design_effect`, less one.
            options: as for `pgmest.interval`, such as `kind="noise"`.

        Raises:
            ArgumentError: an argument is not valid, or the model has no intervals.
        """
        check_level(level)
        if about not in ("table", "population"):
            raise ArgumentError.of("about", about, ("table", "population"))
        if isinstance(design_effect, bool) or not 0.0 < design_effect < math.inf:
            raise ArgumentError.of("design_effect", design_effect, "a positive number, 1 for independent draws")
        found = interval(self.model, self._query, level=level, **options)
        from scipy.special import stdtrit  # imported late: schemas with weights need no SciPy

        middle = self.totals
        reach = (stdtrit(math.inf, 0.5 + 0.5 * level) * self.range_stderr.values) ** 2
        if about == "population":
            quantile = stdtrit(self._degrees(design_effect), 0.5 + 0.5 * level)
            reach = reach + design_effect * (quantile * self.sampling_stderr.values) ** 2
        low, high = (self._without_weight(end).values for end in found)
        below, above = np.maximum(middle.values - low, 0.0), np.maximum(high - middle.values, 0.0)
        least = np.maximum(middle.values - np.sqrt(below**2 + reach), 0.0)
        most = middle.values + np.sqrt(above**2 + reach)
        ends = Factor(middle.domain, least), Factor(middle.domain, most)
        return Interval(*ends, level, found.kind, about, found.basis, found.rows_counted)

    def _degrees(self, design_effect: float) -> float:
        """Return the degrees of freedom of sampling errors: the effective number of draws less one, at least 1."""
        whole, squares = self._sums_of_all
        return max(whole**2 / (squares * design_effect) - 1.0, 1.0) if squares > 0.0 else 1.0

    @property
    def _query(self) -> Kron:
        return self.weight.query(self.model.domain, self.attributes, self.given)

    @property
    def _sums_of_all(self) -> tuple[float, float]:
        """The sum of the weights of all records, and that of their squares, whatever is given."""
        queries = (self.weight.query(self.model.domain, ()), self.weight.squared(self.model.domain, ()))
        whole, squares = (float(self.model.answer(query).values.sum()) for query in queries)
        return whole, squares

    def _answer(self, query: Kron) -> Factor:
        return self._without_weight(self.model.answer(query))

    def _without_weight(self, answer: Factor) -> Factor:
        return Factor(self._domain, np.asarray(answer.values).reshape(self._domain.shape))

    @property
    def _domain(self) -> Domain:
        """The attributes and levels of the table."""
        levels, sizes = named_levels(self.model.domain, self.attributes), self.model.domain
        return Domain({one.name: one.size or sizes[one.attribute] for one in levels})
