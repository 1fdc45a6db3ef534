"""MeasuredEvidence: what the answers of a model say about each table, before errors are drawn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np

from pgmest.measurements.known_errors import KnownErrors
from pgmest.models.errors.classes import by_classes
from pgmest.models.errors.code_errors import CodeErrors
from pgmest.models.errors.exact_sums import is_read
from pgmest.models.errors.measured_tables import USUAL_WEIGHTS, ComparedTable, MeasuredTable, best_answer
from pgmest.models.errors.mixture import learned_weights
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.published_tables import MOST_CELLS, PublishedTable, can_be_read
from pgmest.models.errors.table_answers import TableAnswer
from pgmest.sampling.facts import Facts, held_facts
from pgmest.tables.domain import Clique

HELD, HELD_SHARE = 0.5, 1e-6
"""Exact answers that a model misses by no more than this many records, or this share of them, have no error."""


@dataclass(frozen=True, eq=False)
class MeasuredEvidence:
    """What the answers of a model say about each table.

    Attributes:
        tables: the model's marginals.
        known: the public facts about its errors.
        answers: the noisy tables.
        codes: the evidence about the tables over codes, if `tables` has classes of codes.
    """

    tables: ModelTables
    known: KnownErrors
    answers: tuple[TableAnswer, ...]
    codes: Self | None = None
    _codes: dict[str, CodeErrors] = field(default_factory=dict)
    _larger: dict[Clique, ComparedTable | None] = field(default_factory=dict)
    _between: dict[Clique, PublishedTable] = field(default_factory=dict)

    def about(self, clique: Clique) -> list[TableAnswer]:
        """Return what the answers say about a table."""
        if self.codes is not None:
            over_classes = (by_classes(answer, self.tables.labels) for answer in self.codes.about(clique))
            return [answer for answer in over_classes if answer is not None]
        found = [answer.onto(clique) for answer in self.answers if set(clique) <= set(answer.clique)]
        sizes = [self.tables.domain[name] for name in clique]
        return [a for a in found if a is not None and (len(clique) < 2 or a.tells_of_all(sizes))]

    def is_measured(self, clique: Clique) -> bool:
        """Return whether a noisy table determines this table, at least over groups of codes."""
        return bool(self.about(clique))

    @property
    def measured_pairs(self) -> Collection[Clique]:
        """The pairs that noisy tables determine, at least over groups of codes."""
        return self._pairs.keys()

    @cached_property
    def _pairs(self) -> dict[Clique, ComparedTable]:
        """The measured pairs, with a prior of their dependence that is learned from all of them."""
        domain = self.tables.domain
        pairs = {domain.ordered(pair) for answer in self.answers for pair in combinations(answer.clique, 2)}
        found = {}
        for pair in sorted(pairs, key=domain.axes):
            answer = best_answer(self.about(pair))
            if answer is not None:
                found[pair] = MeasuredTable.of(answer, self.tables)
        mixtures = [table.mixture for table in found.values()]
        before = learned_weights(mixtures, USUAL_WEIGHTS)
        return {pair: table.compared(before, pair in self.known.strong) for pair, table in found.items()}

    def measured(self, clique: Clique) -> ComparedTable | None:
        """Return the measured table of two attributes or more; None if it was not measured."""
        if len(clique) == 2 and self.codes is None:
            return self._pairs.get(clique)
        if clique not in self._larger:
            answer = best_answer(self.about(clique))
            table = None if answer is None else MeasuredTable.of(answer, self.tables)
            before = None if table is None else learned_weights([table.mixture], USUAL_WEIGHTS)
            compared = None if table is None or before is None else table.compared(before, clique in self.known.strong)
            self._larger[clique] = compared
        return self._larger[clique]

    def code_errors(self, name: str) -> CodeErrors:
        """Return the errors of a one-way marginal."""
        if name not in self._codes:
            answers, known = self.about((name,)), (self.tables.counts(name), self.tables.total, self.known.total_stddev)
            found, codes, labels = None, self.codes, self.tables.labels.get(name)
            if codes is not None and labels is not None and (about_codes := codes.about((name,))):
                found = CodeErrors.of_classes(about_codes, labels, *known, codes.code_errors(name))
            if found is None and answers:
                found = CodeErrors.of(answers, *known)
            self._codes[name] = found or CodeErrors.without_answers(self.tables.possible((name,)), *known)
        return self._codes[name]

    @cached_property
    def facts(self) -> tuple[Facts, ...]:
        """The exact answers about codes that the model holds, but for those that its tables miss."""
        if self.codes is not None:
            return self.codes.facts
        model: Any = self.tables.model
        known = model.held_facts() if hasattr(model, "held_facts") else held_facts(self.known.measurements)
        return tuple(one for one in known if is_read(one) and self._holds(one))

    def _holds(self, fact: Facts) -> bool:
        missed = fact.matrix @ self.tables.table(fact.clique).reshape(-1) - fact.values
        return bool((np.abs(missed) <= max(HELD, HELD_SHARE * self.tables.total)).all())

    # -- published tables ----------------------------------------------------------------------------------------------

    def published(self, clique: Clique) -> Clique | None:
        """Return the smallest published table that holds a table; None without any, and for tables over classes."""
        if self.codes is not None:
            return None
        return next((table for table in self._tables_between if set(clique) <= set(table)), None)

    def ends(self, clique: Clique) -> np.ndarray:
        """Return the ends between which the cells of a table lie, shape (2, *shape), if a published table holds it."""
        table = self.published(clique)
        if table is None:
            none = np.zeros(self.tables.domain.project(clique).shape)
            return np.stack([none, none + np.inf])
        ends = np.stack(self.published_table(table).ends).reshape(2, *self.tables.domain.project(table).shape)
        return ends.sum(axis=tuple(axis for axis, name in enumerate(table, start=1) if name not in clique))

    def published_table(self, clique: Clique) -> PublishedTable:
        """Return what is known of a published table, one of those that `published` names."""
        if clique not in self._between:
            parts = self.tables, self.known.measurements, self.answers
            self._between[clique] = PublishedTable.of(clique, *parts)
        return self._between[clique]

    @cached_property
    def _tables_between(self) -> list[Clique]:
        """The tables of which an answer lies between two ends, the smallest first."""
        domain = self.tables.domain
        known = {
            domain.ordered(m.clique)
            for m in self.known.measurements
            if m.clique and m.high is not None and (np.isfinite(m.high) & ~m.exact_rows).any() and can_be_read(m)
        }
        small = (clique for clique in known if domain.size(clique) <= MOST_CELLS)
        return sorted(small, key=lambda clique: (domain.size(clique), domain.axes(clique)))
