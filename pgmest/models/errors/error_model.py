"""ErrorModel: errors of a model's tables, drawn at random from what its measurements say about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np

from pgmest.measurements.known_errors import KnownErrors, TiedCounts
from pgmest.models.errors.exact_sums import known_sums, without_errors_of
from pgmest.models.errors.measured_evidence import MeasuredEvidence
from pgmest.models.errors.measured_tables import ComparedTable
from pgmest.models.errors.model_tables import LEAST, ModelTables
from pgmest.models.errors.plausible_tables import sums_along, without_negative_counts
from pgmest.models.errors.smooth_shares import SmoothShares
from pgmest.models.errors.table_answers import read_answers, sums_by
from pgmest.models.errors.unseen import UnseenDependence
from pgmest.models.protocol import EstimatedModel
from pgmest.tables.domain import Clique

MOST_NUMBERS = 1_200_000
"""The largest number of drawn errors of a table, all draws together."""
FEWEST, MOST = 60, 300
"""The smallest and the largest number of draws."""
MOST_DRAWN = 6_000_000
"""The largest number of drawn errors, all draws together, of a pair over codes that is drawn before its classes. Of
larger tables, of which there are more, it is a tenth."""
OF_CHOSEN = 20
"""The number of draws of a table that was chosen and measured, over which its score is averaged."""
MARGIN, RECORDS_MARGIN = 1.05, 1.1
"""The factors by which errors are drawn larger than the parts that are known, in general and for a model of records:
steps after measuring, such as rounding to records, add errors, too."""
LEAST_SUM = 0.01
"""Sums of errors with a mean square below this share of that of the error of the number of records say nothing."""
ROUNDING = 1e-20
"""Sums with a mean square below this share of that of the errors themselves are rounding errors of floats."""
SWEEPS = 2
"""The number of times that errors of a table are made to agree with those of its margins."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """Draws of errors that agree with each other.

    Attributes:
        count: their number.
        generator: the random generator.
        signs: normal numbers that multiply errors of known sign, shape (count,).
        errors: the errors of each table that was drawn, shape (count, *shape).
        hidden: whether they have sampling errors and dependence that was not measured, too, and not noise alone.
        over_codes: the errors over codes, where `errors` are over classes.
        plausible: the counts of attributes, without negative ones, shape (count, codes).
        above: draws errors of a table of the rows above (`TiedCounts`).
    """

    count: int
    generator: np.random.Generator
    signs: np.ndarray
    errors: dict[Clique, np.ndarray]
    hidden: bool = True
    over_codes: dict[Clique, np.ndarray] = field(default_factory=dict)
    plausible: dict[str, np.ndarray] = field(default_factory=dict)
    above: Callable[[Clique], np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class ErrorModel(MeasuredEvidence):
    r"""The errors that the tables of a model may have.

    The error of a table has these parts:

    - noise, where the table or its margins were measured, as far as the model keeps it, and the dependence that noise
      hides or shrinkage takes away (`code_errors`, `measured_tables`);
    - dependence that was not measured, or only over groups of codes: as large as scores say, or else as what the model
      leaves of the weakest measured dependence between the attributes, within bounds by selections (`unseen`);
    - sampling error of unmeasured tables: of the true records, and of the model's records if it has some;
    - what the errors of the attributes' shares add together, where noise is as large as the counts;
    - errors in proportion to the counts, if the mechanism states any.

    Counts that follow from counts of the rows above have the errors of these (`TiedCounts`). Sums that the model knows
    exactly, such as invariants, have no error. Errors of a table agree with those of its margins. In a measured table,
    errors of margins are spread evenly, as least squares does; in others, in proportion to the model's table.

    Of tables over classes of codes, those of few codes are drawn over codes and added up, so that they are those of
    every other answer. For larger tables, the answers are reduced to classes, and unmeasured dependence is as large as
    that between codes.

    Attributes:
        always: whether tables of few codes are drawn over classes, too. Answers about levels of a tree tell more about
            their groups than about the errors that the codes of a group share.
    """

    always: bool = False
    _drawn: dict[Clique, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, model: EstimatedModel, known: KnownErrors) -> ErrorModel:
        """Create the error model of a model."""
        return cls(ModelTables(model, known.impossible), known, read_answers(known.measurements, model.domain))

    def over_classes(self, labels: Mapping[str, np.ndarray], *, always: bool = False) -> ErrorModel:
        """Return the errors of tables over classes, given the class of each code of attributes that are reduced."""
        tables = ModelTables(self.tables.model, labels=labels)
        return ErrorModel(tables, self.known, self.answers, self, always=always)

    def draws(
        self, clique: Clique, count: int | None = None, seed: int | np.random.Generator = 0, *, hidden: bool = True
    ) -> np.ndarray:
        """Draw errors of a table: plausible true counts are the model's plus such errors.

        Args:
            clique: the attributes, in the order of the domain.
            count: the number of draws; by default as many as fit into memory, from 60 to 300.
            seed: the seed of the draws, or their generator.
            hidden: whether to draw what was not measured, too: sampling errors and dependence.

        Returns:
            an array of shape (count, *shape), in counts.
        """
        cells = max(1, self.tables.domain.size(clique))
        count = int(np.clip(MOST_NUMBERS // cells, FEWEST, MOST)) if count is None else count
        margin = MARGIN if self.known.records == np.inf else RECORDS_MARGIN
        margin = 1.0 if self.published(clique) is not None else margin
        return margin * self._draw(clique, self._drawing(count, np.random.default_rng(seed), hidden))

    def together(
        self, count: int, generator: np.random.Generator, *, hidden: bool = True
    ) -> Callable[[Clique], np.ndarray]:
        """Return a function that draws errors of a table, as `draws`, with the same errors of its margins for all."""
        first = self._drawing(count, generator, hidden)
        margins = first.errors

        def draw(clique: Clique) -> np.ndarray:
            drawing = replace(first, errors=dict(margins))
            found = self._draw(clique, drawing)
            margins.update((names, errors) for names, errors in drawing.errors.items() if len(names) < 2)
            return found

        return draw

    def sampling_variances(self, clique: Clique, tables: np.ndarray) -> np.ndarray:
        """Return the variances of the counts of other samples from the population of drawn tables.

        The expected count of a cell of n records has an interval whose width is that of a variance of n + 1 (score
        intervals of a Poisson distribution), or of less where independent attributes have fewer than one record, with
        one more for each code. Cells that exact answers leave empty are possible, unlike structural zeros that no exact
        table shows.
        """
        total = max(self.tables.total, 1.0)
        likely = reduce(np.multiply.outer, [(self.tables.counts(name) + 1) / total for name in clique], np.array(total))
        shown = any(m.exact_rows.any() and set(clique) <= set(m.clique) for m in self.known.measurements)
        more = np.minimum(np.maximum(likely, self.tables.table(clique)), 1.0)
        return np.maximum(tables, 0.0) + np.where(shown | self.tables.possible(clique), more, 0.0)

    # -- draws ------------------------------------------------------------------------------------------------------

    def _drawing(self, count: int, generator: np.random.Generator, hidden: bool = True) -> Drawing:
        """Begin draws with errors of the number of records."""
        errors = self.known.total_stddev * generator.standard_normal(count)
        errors = self._beside_facts((), errors)
        signs, tied = generator.standard_normal(count), self.known.tied
        above = None if tied is None else tied.above.together(count, generator.spawn(1)[0], hidden=hidden)
        return Drawing(count, generator, signs, {(): errors}, hidden, above=above)

    def _draw(self, clique: Clique, drawing: Drawing) -> np.ndarray:
        """Draw errors of a table, which agree with those of its margins that were drawn before."""
        if clique in drawing.errors:
            return drawing.errors[clique]
        if self.codes is not None and not self.always:
            most = {1: math.inf, 2: MOST_DRAWN}.get(len(clique), MOST_DRAWN / 10)
            if self.codes.tables.domain.size(clique) * drawing.count <= most:
                drawing.errors[clique] = self._summed(self.codes, clique, drawing)
                return drawing.errors[clique]
        tied, published = self._tied(clique), self.published(clique)
        if published == clique:
            found = self._published(clique, drawing)
        elif published is not None:
            found = self._draw(published, drawing).sum(
                axis=tuple(axis for axis, name in enumerate(published, start=1) if name not in clique)
            )
        elif tied is not None and drawing.above is not None and tied.counts(clique):
            axis = clique.index(tied.number) + 1
            found = np.moveaxis(np.moveaxis(drawing.above(clique), axis, -1) * tied.rows, -1, axis)
        elif len(clique) == 1:
            counts, errors = (
                self.tables.counts(*clique),
                self.code_errors(*clique).draws(drawing.count, drawing.generator, drawing.signs),
            )
            errors = np.where(self.tables.possible(clique), errors + self._relative(counts, drawing), 0.0)
            found = self._as_above(clique, _with_sum(errors, drawing.errors[()], counts), counts, drawing)
        else:
            margins = [self._draw(clique[:axis] + clique[axis + 1 :], drawing) for axis in range(len(clique))]
            found = self._with_margins(clique, margins, drawing)
        drawing.errors[clique] = self._beside_facts(clique, found)
        return drawing.errors[clique]

    def _summed(self, codes: ErrorModel, clique: Clique, drawing: Drawing) -> np.ndarray:
        """Draw errors of a table over codes, and add up those of each class."""
        drawing.over_codes[()] = drawing.errors[()]
        found = codes._draw(clique, replace(drawing, errors=drawing.over_codes, plausible={}))
        for axis, name in enumerate(clique, start=1):
            if name in self.tables.labels:
                found = sums_by(found, self.tables.labels[name], self.tables.domain[name], axis)
        return found

    def _beside_facts(self, clique: Clique, errors: np.ndarray) -> np.ndarray:
        """Return drawn errors of a table that leave the sums as they are that exact answers determine."""
        sums = known_sums(self.facts, self.tables.model.domain, clique, self.tables.labels)
        return without_errors_of(sums, errors)

    def _published(self, clique: Clique, drawing: Drawing) -> np.ndarray:
        """Draw errors of a published table, which agree with those of its margins that smaller ones determine."""
        margins: dict[Clique, np.ndarray] = {(): drawing.errors[()]}
        for axis in range(len(clique) if len(clique) > 1 else 0):
            margin = clique[:axis] + clique[axis + 1 :]
            if self.published(margin) != clique:
                margins[margin] = self._draw(margin, drawing)
        return self.published_table(clique).draws(margins, drawing.count, drawing.generator)

    def _with_margins(self, clique: Clique, margins: Sequence[np.ndarray], drawing: Drawing) -> np.ndarray:
        """Draw errors of the interaction of a table, and add those of its margins."""
        allowed, measured = self.tables.allowed(clique), self.measured(clique)
        even = 0.0
        if measured is not None:
            errors = self._measured(clique, measured, allowed, drawing)
            sides = zip(measured.answer.sides, allowed.shape, strict=True)
            even = float(measured.kept.mean()) if all(side.are_codes(size) for side, size in sides) else 0.0
        elif drawing.hidden:
            errors = self._unmeasured(clique, allowed, drawing)
        else:
            errors = np.zeros((drawing.count, *allowed.shape))
        errors = errors + self._relative(allowed, drawing)
        possible = self.tables.possible(clique)
        evenly, everywhere = possible.astype(np.float64), bool(possible.all())
        for _ in range(SWEEPS):
            for axis, wanted in enumerate(margins):
                share = even * _shares(evenly, axis) + (1 - even) * _shares(allowed, axis)
                errors = errors if everywhere else np.where(possible, errors, 0.0)
                errors = errors + np.expand_dims(wanted - sums_along(errors, axis), axis + 1) * share
            errors = self._as_above(clique, errors, allowed, drawing)
        return errors

    def _tied(self, clique: Clique) -> TiedCounts | None:
        """Return the counts that follow from those of the rows above, if they are known over the codes of a table."""
        return None if self.tables.labels.keys() & set(clique) else self.known.tied

    def _as_above(self, clique: Clique, errors: np.ndarray, counts: np.ndarray, drawing: Drawing) -> np.ndarray:
        """Return drawn errors in which the rows that every row above has are as many as these.

        The rows that no rule is about take the difference, so that sums of all rows stay the same. All change in
        proportion to the counts.
        """
        tied = self._tied(clique)
        if tied is None or drawing.above is None:
            return errors
        for axis, name in enumerate(clique):
            rest = clique[:axis] + clique[axis + 1 :]
            rules = [rule for rule in tied.exactly if rule[0] == name]
            if not rules or not set(rest) <= set(tied.above.tables.domain):
                continue
            errors, free = np.moveaxis(errors, axis + 1, -1), np.ones(counts.shape[axis], dtype=bool)
            shares = np.moveaxis(counts, axis, -1) + LEAST
            for _, codes, number in rules:
                gap, inside = number * drawing.above(rest) - errors[..., list(codes)].sum(axis=-1), np.zeros_like(free)
                inside[list(codes)] = True
                errors = _shifted(errors, gap, shares * (inside & free))
                free &= ~inside
                errors = _shifted(errors, -gap, shares * free)
            errors = np.moveaxis(errors, -1, axis + 1)
        return errors

    def _relative(self, counts: np.ndarray, drawing: Drawing) -> np.ndarray | float:
        """Draw errors in proportion to the counts of a table."""
        share = self.known.relative[int(counts.ndim > 1)]
        return share * counts * drawing.generator.standard_normal((drawing.count, *counts.shape)) if share else 0.0

    def _unmeasured(self, clique: Clique, allowed: np.ndarray, drawing: Drawing) -> np.ndarray:
        """Draw sampling errors and dependence of a table that was not measured."""
        sampling = self._sampling_errors(clique, allowed, drawing)
        distance, passed_over = self.unseen.distance(clique), self.unseen.was_passed_over(clique)
        field = self._field(clique, drawing) if distance > 0 else np.zeros_like(sampling)
        if self.unseen.is_like_measured(clique):
            field = self.unseen.like_measured(clique, field, drawing.generator)
        elif not passed_over:
            field = self.unseen.scaled(field, distance, drawing.generator)
        for axis in range(allowed.ndim):
            sampling, field = (
                one - np.expand_dims(sums_along(one, axis), axis + 1) * _shares(allowed, axis)
                for one in (sampling, field)
            )
        if passed_over:
            both = self.unseen.passed_over(clique, sampling, field, drawing.generator)
        else:
            both = self.unseen.within(self.unseen.bound(clique), sampling, field)
        return both + self._products(clique, drawing)

    def _products(self, clique: Clique, drawing: Drawing) -> np.ndarray:
        r"""Draw what the errors of the attributes' shares add to a table together; its margins are zero.

        Independent attributes with the shares p and q of N records, whose errors are d and e, have the table
        $N (p + d) (q + e)$. Beyond the errors of its margins it has the error $N d e$: little where noise is less than
        the counts, and much where it is as large.
        """
        found = np.maximum(self.tables.total + drawing.errors[()], 0.0)
        for name in clique:
            counts = self.tables.counts(name)
            plausible = self._plausible(name, drawing)
            sums = plausible.sum(axis=1, keepdims=True)
            off = plausible / np.maximum(sums, LEAST) - counts / max(float(counts.sum()), LEAST)
            off = np.where(sums > 0, off, 0.0)
            found = found[..., None] * off.reshape(drawing.count, *[1] * (found.ndim - 1), -1)
        return found

    def _plausible(self, name: str, drawing: Drawing) -> np.ndarray:
        """Return drawn counts of an attribute's codes, of which none is negative."""
        if name not in drawing.plausible:
            drawing.plausible[name] = without_negative_counts(self.tables.counts(name) + self._draw((name,), drawing))
        return drawing.plausible[name]

    def _field(self, clique: Clique, drawing: Drawing) -> np.ndarray:
        """Draw dependence of any size, of which a part is smooth in the codes, in tables whose codes have drawn counts.

        Dependence is in proportion to the roots of the counts of codes. Where noise is as large as the counts, those of
        plausible tables are less even than those of the model.
        """
        before, after = self.tables.roots(clique), np.ones(drawing.count)
        for name in clique:
            plausible = self._plausible(name, drawing)
            after = after[..., None] * np.sqrt(plausible).reshape(drawing.count, *[1] * (after.ndim - 1), -1)
        after = np.where(before > 0, after, 0.0)
        sums = np.sum(after, axis=tuple(range(1, after.ndim)), keepdims=True)
        after *= before.sum() / np.maximum(sums, LEAST)
        rough, smooth, generator = 1.0, 0.0, drawing.generator
        if len(clique) == 2:
            one, other = map(self.tables.basis, clique)
            shares = self.unseen.spectrum[: one.shape[1], : other.shape[1]]
            parts = np.sqrt(shares) * generator.standard_normal((len(after), *shares.shape))
            smooth, rough = one @ parts @ other.T, math.sqrt(max(0.0, 1 - float(shares.sum())))
        cells = max(1, int(np.count_nonzero(before > 0)))
        return (smooth + rough / math.sqrt(cells) * generator.standard_normal(after.shape)) * after

    def _sampling_errors(self, clique: Clique, allowed: np.ndarray, drawing: Drawing) -> np.ndarray:
        variances = allowed + self.tables.table(clique) * (self.tables.total / self.known.records)
        return np.sqrt(variances) * drawing.generator.standard_normal((drawing.count, *allowed.shape))

    def _measured(self, clique: Clique, measured: ComparedTable, allowed: np.ndarray, drawing: Drawing) -> np.ndarray:
        """Draw errors of a measured table; within groups, those of an unmeasured one."""
        answer = measured.answer
        errors = measured.draws(answer.grouped(self._field(clique, drawing)), drawing.generator)
        if drawing.hidden:  # a model that keeps little of the answers lacks them, too
            errors = errors + (1 - measured.kept) * answer.grouped(self._products(clique, drawing))
        sides = list(zip(answer.sides, allowed.shape, strict=True))
        if all(side.are_codes(size) for side, size in sides):
            return errors
        shares = allowed / np.maximum(answer.expanded(answer.grouped(allowed)), LEAST)
        if not drawing.hidden:
            return answer.expanded(errors) * shares
        inside = self._sampling_errors(clique, allowed, drawing)
        fewest = min(side.groups for side, size in sides if not side.are_codes(size))
        hidden = max(measured.size / fewest, self.known.dependence.get(clique, 0.0))
        if hidden > 0:
            inside = inside + self.unseen.scaled(self._field(clique, drawing), hidden, drawing.generator)
        inside = inside + self._products(clique, drawing)
        return (answer.expanded(errors) - answer.expanded(answer.grouped(inside))) * shares + inside

    @cached_property
    def unseen(self) -> UnseenDependence:
        """The dependence that was not measured, which is that between codes, also for tables over classes."""
        if self.codes is not None:
            return self.codes.unseen
        deviations = {}
        for pair, table in self._pairs.items():
            allowed = self.tables.allowed(pair)
            shares = allowed / np.maximum(table.answer.expanded(table.answer.grouped(allowed)), LEAST)
            deviations[pair] = table.answer.expanded(table.deviations) * shares
        known = self.known
        sizes = {pair: table.size for pair, table in self._pairs.items()}
        selected = known.selections, known.bounds, self._errors_of_measured
        smooth = [
            SmoothShares.of(table.answer, table.answer.grouped(self.tables.expected(pair)), table.size)
            for pair, table in self._pairs.items()
        ]
        return UnseenDependence(self.tables, deviations, sizes, known.dependence, *selected, smooth, known.alike)

    def _errors_of_measured(self, clique: Clique) -> np.ndarray | None:
        """Draw errors of a table that was measured; return None if it was not, or if it is large."""
        if not self.is_measured(clique) or self.tables.domain.size(clique) * OF_CHOSEN > MOST_NUMBERS:
            return None
        if clique not in self._drawn:
            self._drawn[clique] = self.draws(clique, OF_CHOSEN, hidden=False)
        return self._drawn[clique]


def _with_sum(errors: np.ndarray, wanted: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return drawn errors of counts that add up to wanted errors of the number of records.

    What is missing is divided by how much each error has to do with their sum, as conditional normal distributions do:
    many uncertain rare codes take it from each other, and leave a frequent code alone that is well known.

    Args:
        errors: drawn errors, shape (count, codes).
        wanted: their sums, shape (count,).
        counts: the model's counts, by which all is divided where the errors hardly add up to anything.
    """
    sums = errors.sum(axis=1)
    square = float(sums @ sums)
    if square <= max(LEAST_SUM * float(wanted @ wanted), ROUNDING * float(np.square(errors).sum())):
        shares = counts / max(float(counts.sum()), LEAST)
    else:
        shares = sums @ errors / square
    return errors + (wanted - sums)[:, None] * shares


def _shifted(errors: np.ndarray, gap: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return drawn errors with a gap divided along the last axis, in proportion to shares; none where all are 0."""
    sums = shares.sum(axis=-1, keepdims=True)
    return errors + gap[..., None] * np.divide(shares, sums, out=np.zeros_like(shares), where=sums > 0)


def _shares(table: np.ndarray, axis: int) -> np.ndarray:
    """Return the share of each cell of a table in its sum along an axis; equal shares of a sum of 0."""
    sums = table.sum(axis=axis, keepdims=True)
    return np.where(sums > LEAST, table / np.maximum(sums, LEAST), 1 / table.shape[axis])
