"""FamilyModel: the families of a run, and models of its tables and of pairs of children that know the noisy answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.data.linked_rules import CountRule
from pgmest.inference.support.support import Support
from pgmest.measurements.known_errors import KnownErrors, TiedCounts
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.lengths import RATIO_SPREAD, ChildCounts, MeasuredLengths
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.errors.unseen import BOUND_SHARE
from pgmest.models.support import SupportModel
from pgmest.queries import Kron
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain

DRAWS = 200
"""The number of draws of errors of parents from which those of their children are taken."""
PAIR_SPREAD = 0.5
"""The error of the ratio of counts of pairs to lengths, relative to the spread of the ratios between cells. To it the
relative error of the number of pairs is added, which all counts have in common."""
MOST_PAIRS = 2_000_000
"""The number of pairs of children above which a model of pairs has those of some families only."""
MOST_CELLS = 100_000
"""The largest number of cells of a table of parents with the number of children whose errors are drawn."""
LEAST_SHARE, LEAST = 1e-3, 1e-6
"""The smallest standard error of a count, relative to the largest one of its table, and in counts."""


@dataclass(frozen=True, eq=False)
class FamilyModel:
    """The families of a run with the answers from which they were made.

    Attributes:
        families: as many families as the data is estimated to have.
        lengths: the noisy lengths of tables with attributes of children.
        above: the noisy tables of parents' attributes and of the number of children.
        total, total_stddev: the estimated number of families, and its standard error.
        numbers: the noisy numbers of children with a code.
        rules: the rules about numbers of children, which are taken to hold in every family.
        scored: for tables that were scored and not measured, the largest likely l1 distance of their averages from the
            model's, in families.
    """

    families: Families
    lengths: tuple[MeasuredLengths, ...]
    above: tuple[LinearMeasurement, ...]
    total: float
    total_stddev: float
    numbers: tuple[MeasuredNumbers, ...] = ()
    rules: tuple[CountRule, ...] = ()
    scored: Mapping[Clique, float] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The attributes."""
        return self.families.layout

    @cached_property
    def parents(self) -> SupportModel:
        """The model of the parent table, with the number of children: it counts parents."""
        model = _model(self.families.parents, self.layout.parent_domain, self.total)
        bounds = self._bounds(self.layout.parent_domain, 1.0)
        facts = {"records": max(self.total, 1.0), "bounds": bounds, "alike": True}
        return model.knows(KnownErrors(self.above, self.total_stddev, **facts))

    @cached_property
    def children(self) -> SupportModel:
        """The model of the child table, with the attributes of the parent of each row: it counts children."""
        families = self.families
        rows = np.hstack([families.parents[families.owners], families.children])
        answers = [answer for answer in self.lengths if not self.layout.is_across(answer.clique)]
        return self._below(rows, self.layout.child_domain, np.arange(self.layout.at_most + 1.0), answers)

    @cached_property
    def pairs(self) -> SupportModel:
        """The model of two children of one parent: it counts ordered pairs of different children, or of a child and
        the next one if children are in order."""
        one, other = pairs_of(self.families)
        families, sizes = self.families, np.arange(self.layout.at_most + 1.0)
        partners = 1.0 * (sizes > 1) if self.layout.ordered else sizes
        rows = np.hstack([families.parents[families.owners[one]], families.children[one], families.children[other]])
        answers = [answer for answer in self.lengths if self.layout.is_across(answer.clique)]
        if not self.layout.ordered:
            answers += [answer.mirrored(self.layout) for answer in answers if _differ(answer.clique, self.layout)]
        return self._below(rows, self.layout.pair_domain, (sizes - 1) * partners, answers)

    def _below(
        self, rows: np.ndarray, domain: Domain, weights: np.ndarray, answers: Sequence[MeasuredLengths]
    ) -> SupportModel:
        """Return the model of children, or of pairs of them.

        Args:
            rows: the codes of each, with those of the parent.
            domain: the attributes.
            weights: how many a family of each size has.
            answers: the lengths that say something about their counts.
        """
        families = self.families
        scale = self.total / max(1, len(families.sizes))
        held = float(weights[families.sizes].sum()) * scale
        model = _model(rows, domain, held)
        per_row = held / max(1, len(rows))
        found = [a.counts(families, [rows[:, axis] for axis in domain.axes(a.clique)], per_row) for a in answers]
        known = [*self._of_parents(model, weights), *(counts.measurement for counts in found)]
        if not self.layout.ordered:
            known += [_of_the_first(m, self.layout) for m in known if m.clique[0] in self.layout.others]
        stddev, pairs = self._stddev(weights), len(domain) > len(self.layout.child_domain)
        factor, whole = (PAIR_SPREAD, stddev / max(held, 1.0)) if pairs else (RATIO_SPREAD, 0.0)
        one, several = (math.hypot(factor * _spread(found, several=more), whole) for more in (False, True))
        exactly = () if pairs else tuple(self._exactly())
        tied = TiedCounts(error_model_of(self.parents), self.layout.number, weights, exactly)
        bounds = self._bounds(domain, held / max(self.total, 1.0))
        strong = [pair for pair in combinations(domain, 2) if self.layout.joins(pair)]
        facts = {"records": max(held, 1.0), "relative": (one, several), "tied": tied, "bounds": bounds, "alike": True}
        return model.knows(KnownErrors(tuple(known), stddev, strong=strong, **facts))

    def _bounds(self, domain: Domain, each: float) -> dict[Clique, float]:
        """Return bounds on the distances of tables from the model's, in counts; the scores bound what is expected.

        Args:
            domain: the attributes of the tables.
            each: the mean number of what is counted in a family.
        """
        names = set(domain)
        return {clique: each * most / BOUND_SHARE for clique, most in self.scored.items() if names.issuperset(clique)}

    def _exactly(self) -> Iterator[tuple[str, tuple[int, ...], int]]:
        """Yield attributes of a child with some of its codes, and the number of such children of every family."""
        limits: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
        for rule in self.rules:
            key = f"{rule.table}.{rule.attribute}", tuple(sorted(set(rule.codes)))
            least, most = limits.get(key, (0, self.layout.at_most))
            limits[key] = max(least, rule.least), most if rule.most is None else min(most, rule.most)
        for (name, codes), (least, most) in limits.items():
            if least == most:
                yield name, codes, least

    def _stddev(self, weights: np.ndarray) -> float:
        """Return the standard error of a number of children or pairs: that of the answers, or of the model's if it is
        larger."""
        number, model = (self.layout.number,), error_model_of(self.parents)
        errors = model.draws(number, DRAWS)
        root = model.code_errors(*number).root
        answers = 0.0 if root is None else float(np.linalg.norm(weights @ root))
        return max(answers, float(np.sqrt(np.mean(np.square(errors @ weights)))))

    def _of_parents(self, model: SupportModel, weights: np.ndarray) -> Iterator[LinearMeasurement]:
        """Yield the tables of parents' attributes, over children, with the errors that follow from those of parents.

        The errors of a table over children are those of the table of parents with the number of children, weighted by
        this number.
        """
        layout, errors = self.layout, error_model_of(self.parents)
        measured = {answer.clique for answer in self.above if len(answer.clique) == 2}
        for clique in (*((name,) for name in layout.parents), *sorted(measured)):
            whole = layout.domain.ordered({*clique, layout.number})  # the number is the last of a parent's attributes
            if layout.domain.size(whole) > MOST_CELLS:
                continue
            drawn = errors.draws(whole, DRAWS) * weights
            drawn = drawn if layout.number in clique else drawn.sum(axis=-1)
            clique = layout.domain.ordered(clique)
            yield _known(model.project(clique).values, clique, np.sqrt(np.mean(np.square(drawn), axis=0)))


def pairs_of(families: Families) -> tuple[np.ndarray, np.ndarray]:
    """Return the two children of each pair: of all ordered pairs, or a child and the next one if children are in order.

    If there are more than `MOST_PAIRS`, the pairs of some families are returned.
    """
    sizes, ordered = families.sizes, families.layout.ordered
    number = np.maximum(sizes - 1, 0) * (1 if ordered else sizes)
    step = -(-int(number.sum()) // MOST_PAIRS)
    ones, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for size in np.unique(sizes[sizes > 1]):
        first = families.first[sizes == size][:: max(step, 1), None]
        i, j = np.divmod(np.arange(size * (size - 1)), size - 1)
        j += j >= i
        kept = j == i + 1 if ordered else np.ones(len(i), dtype=bool)
        ones.append((first + i[kept]).ravel())
        others.append((first + j[kept]).ravel())
    return np.concatenate(ones), np.concatenate(others)


def _differ(clique: Clique, layout: Layout) -> bool:
    """Return whether a clique is of two different attributes."""
    return len(clique) == 2 and layout.place(clique[0]) != layout.place(clique[1])


def _of_the_first(counts: LinearMeasurement, layout: Layout) -> LinearMeasurement:
    """Return the counts of an attribute of the second child of pairs as those of the first one, which are the same."""
    (name,), query = counts.clique, counts.query
    assert isinstance(query, Kron)
    first = layout.members[layout.place(name)]
    return LinearMeasurement(counts.values, (first,), counts.stddev, Kron({first: query.factors[name]}))


def _spread(found: list[ChildCounts], several: bool) -> float:
    """Return the root-mean-square spread of ratios in tables of one attribute, or of several."""
    spreads = [counts.spread for counts in found if (len(counts.measurement.clique) > 1) == several]
    return float(np.sqrt(np.mean(np.square(spreads)))) if spreads else 0.0


def _known(table: np.ndarray, clique: Clique, stddev: np.ndarray) -> LinearMeasurement:
    """Return a table with independent errors as a measurement; of one attribute, each code has its own error."""
    least = max(float(stddev.max()) * LEAST_SHARE, LEAST)
    if table.ndim > 1:
        return LinearMeasurement(table.ravel(), clique, max(float(np.sqrt(np.mean(np.square(stddev)))), least))
    each = np.maximum(stddev, least)
    return LinearMeasurement(table / each, clique, 1.0, Kron({clique[0]: np.diag(1 / each)}))


def _model(rows: np.ndarray, domain: Domain, total: float) -> SupportModel:
    """Return the model of rows of codes, or of a single row without any."""
    columns = list(np.ascontiguousarray((rows if len(rows) else np.zeros((1, len(domain)), dtype=np.int64)).T))
    data = Dataset.from_codes(columns, domain)
    return SupportModel(Support(data), CliqueVector.zeros(domain, []), total)
