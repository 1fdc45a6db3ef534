"""TopDown: noisy tables of all areas of a tree, made consistent from the root down, in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np

from pgmest._base.stages import stage
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, ModelTooLarge, count_text, listed, memory_text
from pgmest.inference.support.support import Support
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.invariants import HELD, held
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.parameters import FLAG, MEGABYTES, Check, optional, parameter
from pgmest.mechanisms.result import Outcome
from pgmest.mechanisms.topdown.constraints import Limits, limits_of
from pgmest.mechanisms.topdown.curvature import Curvature, check_questions
from pgmest.mechanisms.topdown.least_squares import Family, nonnegative
from pgmest.mechanisms.topdown.questions import Question, default_questions, with_total, workload_questions
from pgmest.mechanisms.topdown.spine import Spine
from pgmest.mechanisms.topdown.whole import Rounding
from pgmest.mechanisms.unnamed import with_unnamed
from pgmest.models.support import SupportModel
from pgmest.privacy.curator import Curator
from pgmest.queries.levels import named_levels
from pgmest.sampling.facts import exact_facts, warn_of_unmet
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.hierarchy import Hierarchy
from pgmest.workloads import Item, Workload

TABLE_MEGABYTES = 80.0
"""The largest table of all areas with all detail cells, in megabytes at 8 bytes a cell; the solver needs ten times
that, and some minutes."""


LEAST_NOISE = 1e-3
"""Noise of a smaller standard deviation counts as this much."""

TOLERANCE = 1e-3
"""The largest error of the least squares in a cell, in counts, or in standard deviations of the most accurate answers
if these are above 1."""


def _spine(value: Any) -> str | Hierarchy:
    if not isinstance(value, str | Hierarchy):
        raise TypeError
    return value if isinstance(value, Hierarchy) else str(value)


def _shares(value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        raise TypeError
    found = {name: float(share) for name, share in value.items()}
    if not all(0 < share < math.inf for share in found.values()):
        raise ValueError
    return found


SPINE = optional(Check("the name of an attribute, or its Hierarchy", _spine))
SHARES = optional(Check("a mapping to positive numbers", _shares))


@dataclass(frozen=True, eq=False)
class _Design:
    """The questions and facts of a run, which depend on the domain and the arguments alone.

    Attributes:
        domain: the attributes, with the hierarchy of the spine.
        spine: the tree of areas.
        detail: the other attributes.
        questions: the questions in each area.
        asked: for each measurement its level and its question, in the order of measurement.
        limits: the constraints of each level.
        margins: the margins that rounding should protect, the most important first.
    """

    domain: Domain
    spine: Spine
    detail: Domain
    questions: list[Question]
    asked: list[tuple[int, int]]
    limits: list[Limits]
    margins: tuple[Clique, ...]


@dataclass(frozen=True, kw_only=True)
class TopDown(Mechanism):
    """The TopDown algorithm of the 2020 census (Abowd et al. 2022), on the hierarchy of one attribute.

    In each area of each level, from a root through the levels of the hierarchy to the values of the attribute, the same
    questions about the other attributes are asked: by default the total, all marginals of one and of two attributes,
    and the histogram of all. A record is in one area of a level, so all areas of a level cost as much as one. From the
    root down, nonnegative least squares fits the tables of the children of each area, which add up to the area's own
    table, and controlled rounding makes them whole numbers that still do. The records of the result are these numbers.

    >>> import pgmest as pg
    >>> region = pg.Hierarchy("area", {"region": [0, 0, 1, 1]})
    >>> domain = pg.Domain({"area": 4, "sex": 2}).with_hierarchies(region)
    >>> data = pg.Dataset.from_codes(np.tile([[0, 0], [1, 1], [3, 0]], (50, 1)), domain)
    >>> result = TopDown(epsilon=5.0, backend="simulation").fit(data, seed=0)
    >>> result.details["levels"]
    {'all': 1, 'region': 2, 'area': 4}
    >>> bool((result.sample().project("area").values == result.project("area").values.round()).all())
    True

    Args:
        spine: the attribute of areas, or its `Hierarchy`; by default the only attribute of the domain with a hierarchy.
            An attribute without one has a root and its values.
        level_shares: the share of each level in the budget, by its name: "all" for the root (or its name in the
            hierarchy), the names of the hierarchy's levels, and the attribute for its values. By default all levels
            have the same.
        query_shares: the questions, as sets of detail attributes (() for the total), with the share of each. By default
            the questions are those of the workload, with its weights as shares; without one, each number of attributes
            (0, 1, 2, all) has the same share.
        totals_first: whether the totals of a level's areas are fitted first, and all else within these totals, as
            published; otherwise all is fitted at once.
        max_megabytes: the largest table of all values of the attribute with all detail cells, 8 bytes a cell.

    Raises:
        ArgumentError: if a parameter is not valid; or before anything is spent, if the domain has no hierarchy or
            several and `spine` is not given, shares name unknown levels, or constraints contradict each other.
        QueryError: before anything is spent, if the workload has other queries than Krons, or a constraint is not about
            areas of the spine.
        ModelTooLarge: before anything is spent, if the table exceeds `max_megabytes`.
    """

    spine: str | Hierarchy | None = parameter(None, SPINE)
    level_shares: Mapping[str, float] | None = parameter(None, SHARES)
    query_shares: Mapping[Any, float] | None = parameter(None, SHARES)
    totals_first: bool = parameter(True, FLAG)
    max_megabytes: float = parameter(TABLE_MEGABYTES, MEGABYTES)

    definition: ClassVar[str] = "either"
    gaussian_curve: ClassVar[bool] = True

    @property
    def graphical(self) -> bool:
        return False

    @property
    def keeps_records(self) -> bool:
        return False

    @property
    def holds_invariants(self) -> bool:
        return True

    def sees(self, domain: Domain) -> Clique:
        """Return the attribute of areas, and the attributes of several codes."""
        areas = self._areas(domain)[0]
        return tuple(name for name in domain if name == areas or domain[name] > 1)

    def without_constants(self, domain: Domain) -> TopDown:
        if self.query_shares is None:
            return self
        names, shares = set(self.sees(domain)), dict[Clique, float]()
        for clique, share in self.query_shares.items():
            levels = named_levels(domain, clique)
            own = tuple(level.name for level in levels if level.attribute in names)
            shares[own] = shares.get(own, 0.0) + share
        return replace(self, query_shares=shares)

    def covering_workload(self, domain: Domain, workload: Workload) -> Workload:
        return with_unnamed(domain.without((self._areas(domain)[0],)), workload)

    def run(self, curator: Curator, workload: Workload | None, rng: np.random.Generator) -> Outcome:
        design = self._design(curator, workload)
        answers = dict(zip(design.asked, self._measure(curator, design), strict=True))
        noisy = {place: answer for place, answer in answers.items() if answer.noisy}
        model = self._fitted(design, noisy, rng)
        exact = exact_facts(one for one in curator.invariants if held(model, [one]) == HELD)
        model = replace(model, facts=exact) if exact else model
        return Outcome(model, self._details(design))

    # -- what is asked ----------------------------------------------------------------------------------------------

    def _design(self, curator: Curator, workload: Workload | None) -> _Design:
        """Return what the run asks and holds; errors as for the class."""
        attribute, hierarchy = self._areas(curator.domain)
        domain = curator.domain if hierarchy is None else curator.domain.with_hierarchies(hierarchy)
        spine = Spine.of(attribute, domain[attribute], hierarchy)
        detail = domain.without((attribute,))
        cells = domain.size()
        if 8e-6 * cells > self.max_megabytes:
            raise ModelTooLarge(
                f"TopDown keeps a table of all {count_text(domain[attribute])} values of '{attribute}' with all "
                f"{count_text(detail.size())} cells of {listed(detail.attributes)}, which needs "
                f"{memory_text(8 * cells)}, more than max_megabytes={self.max_megabytes:g}. Select fewer attributes, "
                "coarsen them, or take LAMP, which keeps records."
            )
        questions = self._questions(domain, workload, attribute)
        check_questions(detail.shape, questions)
        known_root = curator.fixed_total is not None
        asked = [
            (level, place)
            for level, place in product(range(len(spine.names)), range(len(questions)))
            if level or not known_root or questions[place].clique
        ]
        known = curator.invariants
        limits = limits_of(spine, domain, detail, known, curator.structural_zeros, curator.fixed_total)
        margins = [detail.ordered(one.clique) for one in known] + [question.clique for question in questions]
        return _Design(domain, spine, detail, questions, asked, limits, tuple(dict.fromkeys(margins)))

    def _areas(self, domain: Domain) -> tuple[str, Hierarchy | None]:
        """Return the attribute of areas and its hierarchy."""
        if isinstance(self.spine, Hierarchy):
            return domain.clique(self.spine.attribute)[0], self.spine
        hierarchies = domain.hierarchies
        if self.spine is not None:
            return domain.clique(self.spine)[0], hierarchies.get(self.spine)
        if len(hierarchies) != 1:
            found = f"those of {listed(hierarchies)}" if hierarchies else "none"
            raise ArgumentError(
                f"TopDown goes down the hierarchy of one attribute, and the domain has {found}: name the attribute of "
                "areas as spine= (--parameter spine=NAME on the command line), or give one its hierarchy "
                "(Domain.with_hierarchies, or `hierarchy:` in a schema)."
            )
        return next(iter(hierarchies.items()))

    def _questions(self, domain: Domain, workload: Workload | None, areas: str) -> list[Question]:
        detail = domain.without((areas,))
        if self.query_shares is None:
            if workload is None:
                return default_questions(detail)
            return with_total(workload_questions(detail, workload.without_levels(domain), areas))
        if workload is not None:
            raise ArgumentError("TopDown got a workload and query_shares=: state the questions once.")
        shares = Workload(tuple(Item(clique, weight=share) for clique, share in self.query_shares.items()))
        shares.check(domain)
        return workload_questions(detail, shares.without_levels(domain), areas)

    def _level_weights(self, spine: Spine) -> list[float]:
        if self.level_shares is None:
            return [1.0] * len(spine.names)
        if set(self.level_shares) != set(spine.names):
            raise ArgumentError.of("level_shares", dict(self.level_shares), f"a share for each of {spine.names}")
        return [self.level_shares[name] for name in spine.names]

    def _measure(self, curator: Curator, design: _Design) -> list[LinearMeasurement]:
        levels, spine = self._level_weights(design.spine), design.spine
        cliques, queries, weights = [], [], []
        sums = [sum(design.questions[q].share for at, q in design.asked if at == level) for level in range(len(levels))]
        for level, place in design.asked:
            question = design.questions[place]
            clique, query = question.query(design.domain, spine.query(level))
            cliques.append(clique)
            queries.append(query)
            weights.append(levels[level] * question.share / sums[level])
        return curator.measure_all(cliques, curator.budget, weights=weights, queries=queries)

    # -- from the root down -----------------------------------------------------------------------------------------

    def _fitted(
        self, design: _Design, answers: Mapping[tuple[int, int], LinearMeasurement], rng: np.random.Generator
    ) -> SupportModel:
        """Return the model of the answers, each with its level and question."""
        spine, detail = design.spine, design.detail
        rounding = Rounding(detail, design.margins, rng)
        parents = np.zeros((1, detail.size()))
        for level, limits in enumerate(design.limits):
            stage(f"fitting the level '{spine.names[level]}'")
            family = Family(spine.parents(level) if level else None, parents)
            own = {place: answer for (at, place), answer in answers.items() if at == level}
            tables = self._level(design, level, family, own)
            if level:
                above = np.concatenate([one.rows for one in design.limits[:level]])
                parents = rounding.children(tables, family, limits, above)
            else:
                parents = rounding.root(tables, limits)
        return self._model(design, parents)

    def _level(
        self, design: _Design, level: int, family: Family, answers: Mapping[int, LinearMeasurement]
    ) -> np.ndarray:
        """Return nonnegative tables of the areas of a level, fitted pass by pass."""
        spine, shape, limits = design.spine, design.detail.shape, design.limits[level]
        areas = spine.size(level)
        tables = np.ones((areas, design.detail.size())) if family.parents is None else family.mean_child()
        first = self.totals_first and not (limits.hard & limits.totals).any()
        totals = [place for place in answers if not design.questions[place].clique] if first else []
        passes = [one for one in (totals, [place for place in answers if place not in totals]) if one]
        for chosen in passes or [[]]:  # without noisy answers, the constraints alone
            linear = np.zeros(tables.shape)
            noise = [max(float(np.sqrt(np.mean(np.square(answers[place].stddev)))), LEAST_NOISE) for place in chosen]
            weights = [(min(noise) / one) ** 2 for one in noise]
            for place, weight in zip(chosen, weights, strict=True):
                values = spine.in_own_order(level, answers[place].values.reshape(areas, -1))
                linear += weight * design.questions[place].transposed(values, shape)
            curvature = Curvature.of(shape, [design.questions[place] for place in chosen], weights)
            tolerance = TOLERANCE * max(min(noise, default=1.0), 1.0)
            tables = nonnegative(curvature, linear, family, limits, tables, tolerance=tolerance)
            limits = limits.with_totals(tables) if chosen is totals else limits
        return tables

    # -- the result -------------------------------------------------------------------------------------------------

    def _model(self, design: _Design, tables: np.ndarray) -> SupportModel:
        """Return the model whose records are the whole numbers of the leaves, shape (leaves, cells)."""
        domain = design.domain
        areas, cells = np.nonzero(tables)
        counts = tables[areas, cells]
        total = float(counts.sum())
        if not counts.size:  # a model needs a record, even of weight 0
            possible = design.limits[-1].possible
            areas, cells = (place[:1] for place in np.nonzero(possible))
            counts = np.ones(1)
        codes = dict(zip(design.detail, np.unravel_index(cells, design.detail.shape or (1,)), strict=False))
        codes[design.spine.attribute] = design.spine.order[areas]
        columns = [codes[name].astype(code_type(size)) for name, size in domain.items()]
        support = Support(Dataset.from_codes(columns, domain, counts))
        self._warn(design, tables, total)
        return SupportModel(support, CliqueVector.zeros(domain, []), total, facts=())

    def _warn(self, design: _Design, tables: np.ndarray, total: float) -> None:
        """Warn of constraints that the records miss."""
        missed = []
        for groups, limits in zip(design.spine.groups, design.limits, strict=True):
            sums = np.zeros((len(limits.possible), tables.shape[1]))
            np.add.at(sums, groups[design.spine.order], tables)
            missed.append(limits.missed(sums).reshape(-1))
        off = np.concatenate(missed)
        warn_of_unmet(off[off > 0.0], int(total))

    def _details(self, design: _Design) -> dict[str, Any]:
        return {
            "levels": {name: design.spine.size(level) for level, name in enumerate(design.spine.names)},
            "questions": tuple(dict.fromkeys(question.clique for question in design.questions)),
        }
