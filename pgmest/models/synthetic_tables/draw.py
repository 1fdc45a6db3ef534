"""`sample_tables_of`: synthetic tables of any model that knows its answers, for analyses that `combine` joins.

Each table is a draw of the tables that the answers allow (`plausible`). Records of the model get weights under which
their tables are those (`pgmest.sampling.reweighting`), and synthetic records are drawn by these weights. Nothing is
estimated again.

Tables that are made again from the model's answers with fresh noise do not cover: shrinkage takes the same off them as
off the model, and they lack the dependence that the model lacks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from pgmest._base.memory import default_records
from pgmest._base.progress import progress
from pgmest.analyses.sampled_tables import SampledTables, named_pairs
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, QueryError, at_least
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.synthetic_tables.plausible import PlausibleTables
from pgmest.sampling.facts import Facts, held_facts
from pgmest.sampling.reweighting import Reweighting, moved
from pgmest.sampling.systematic import systematic
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase

About = Literal["table", "population"]

SAMPLING: dict[About, str] = {"table": "round", "population": "multinomial"}
"""The methods of sampling."""
FEWEST_RECORDS, MOST_RECORDS = 50_000, 250_000
"""The least and the largest number of records of a model that get weights. There are at least as many as the total,
within these limits, so that their own sampling error is no larger than that of the synthetic table."""
MOST_SPREAD, FAR_LESS = 2.0, 0.7
"""The largest standard deviation of the logarithms of weights for dependence that was not measured: with more, a few
records have all the weight. A warning says so if factors are lowered to less than the power FAR_LESS."""
CORRECTIONS = 4
"""The number of times that correlations of codes of unmeasured pairs are corrected for what the targets took back."""
MOST_CELLS = 20_000
"""Tables of attributes with at most this many cells together are drawn from all of these cells instead of records."""
MISSING, NONE, MORE_RECORDS = 0.01, 1e-6, 10_000
"""If codes of an attribute plausibly have more than the share MISSING of the records, and the model gives them less
than the share NONE, MORE_RECORDS records of independent attributes are added: weights cannot bring back a code that is
in no record."""
MOST_AT_ONCE = 30_000_000
"""The largest number of drawn counts that are held at a time."""


class SyntheticTablesWarning(UserWarning):
    """The warning that analyses of synthetic tables are less certain than they look."""


def sample_tables_of(
    model: ModelBase,
    m: int,
    n: int | None = None,
    *,
    attributes: Iterable[str] | str | None = None,
    about: About | None = None,
    seed: int | np.random.Generator | None = None,
) -> SampledTables[Dataset]:
    """Draw m synthetic tables for analyses whose results `pg.combine` joins.

    This is `sample_tables` of models and results, with their arguments.

    Raises:
        ArgumentError: the model does not know the answers from which it was made, `m` or `n` is not a number of at
            least 1, or `about` is neither kind.
        UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is named twice.
    """
    at_least("m", m, 1)
    if n is not None:
        at_least("n", n, 1)
    asked = model.domain.ordered(model.domain if attributes is None else model.domain.clique(attributes))
    if not asked:
        raise ArgumentError.of("attributes", attributes, "at least one attribute of the model")
    names = model.domain.project(asked).varying or asked[:1]
    facts = [one for each in _facts_of(model) if (one := each.margin(model.domain, names))]
    if about is None:
        about = "table" if facts else "population"
    if about not in SAMPLING:
        raise ArgumentError.of("about", about, SAMPLING)
    generator = np.random.default_rng(seed)
    plausible = PlausibleTables(error_model_of(model), names)
    unmeasured = [pair for pair in plausible.pairs if not plausible.errors.is_measured(pair)]
    if attributes is not None:
        _warn_of_unmeasured(unmeasured)
    if not model.total > 0:
        empty = [model.sample(0 if n is None else n, seed=generator).select(asked) for _ in range(m)]
        return SampledTables(empty, unmeasured, about=about)
    free = not facts and plausible.errors.tables.all_possible
    means = {name: plausible.mean(name) for name in names} if free else {}
    records, found = _records_of(model, names, means), list[Dataset]()
    cells = sum(model.domain.size(pair) for pair in plausible.pairs)
    at_once = max(1, min(m, MOST_AT_ONCE // max(1, cells)))
    least = 1.0
    with progress("drawing tables", m) as more:
        while len(found) < m:
            drawn = plausible.draw(min(at_once, m - len(found)), generator)
            for place in range(len(drawn.totals)):
                weighted = records(generator)
                targets = {pair: tables[place] for pair, tables in drawn.pairs.items()}
                targets |= {(name,): counts[place] for name, counts in drawn.one_way.items()}
                tilts = {pair: factors[place] for pair, factors in drawn.factors.items()}
                start, power = weighted.tilted(tilts, MOST_SPREAD)
                least = min(least, power)
                weights = weighted.weights(targets, start)
                if drawn.correlations:
                    values = plausible.products(weighted.records, drawn.correlations)
                    wanted = np.array([correlations[place] for correlations in drawn.correlations.values()])
                    for _ in range(CORRECTIONS):
                        weights = weighted.weights(targets, moved(weights, values, wanted))
                size = default_records(float(weights.sum())) if n is None else n
                made = weighted.sample(weights, max(size, 1), SAMPLING[about], generator, facts)
                found.append(made.with_constants(model.domain.project(asked)))
                more(1)
    if least < FAR_LESS:
        warnings.warn(
            f"so many of the {len(names)} attributes were not measured in pairs that their plausible dependence had to "
            f"be lowered (to {least:.0%}): name the attributes that the analysis reads by attributes=.",
            SyntheticTablesWarning,
            stacklevel=3,
        )
    return SampledTables(found, unmeasured, about=about)


def _warn_of_unmeasured(pairs: Sequence[Clique]) -> None:
    """Warn of pairs of an analysis that no answer is about."""
    if not pairs:
        return
    warnings.warn(
        f"no answer is about {named_pairs(pairs)}: in these tables they depend as strongly as pairs usually do, at "
        "random. Intervals of coefficients that relate them hold on average over such pairs, but not for two that "
        "depend far more than usual. Measure those pairs, or report such coefficients as assumed, not as found.",
        SyntheticTablesWarning,
        stacklevel=4,
    )


def _facts_of(model: ModelBase) -> tuple[Facts, ...]:
    """Return the exact answers that a model's records hold."""
    known = model.known_errors
    if hasattr(model, "held_facts"):
        return model.held_facts()  # type: ignore[attr-defined]
    return () if known is None else held_facts(known.measurements)


def _records_of(
    model: ModelBase, names: Clique, means: Mapping[str, np.ndarray]
) -> Callable[[np.random.Generator], Reweighting]:
    """Return a function that gives records of a model, with weights that sum to its total.

    Args:
        model: the model.
        names: the attributes.
        means: mean plausible one-way marginals, all of whose codes are in some record, even if the model lacks them.
    """
    domain = model.domain.project(names)
    fixed = _weighted_records(model, names)
    if fixed is None and domain.size() <= MOST_CELLS:
        table = np.maximum(model.project(names).datavector(), 0.0)
        cells = np.flatnonzero(table)
        codes = list(np.unravel_index(cells, domain.shape))
        fixed = Dataset.from_codes(codes, domain, table[cells], trusted=True)
    if fixed is not None and fixed.records <= MOST_RECORDS:
        kept = Reweighting(_with_missing_codes(fixed, means))
        return lambda generator: kept
    count = int(np.clip(model.total, FEWEST_RECORDS, MOST_RECORDS))

    def drawn(generator: np.random.Generator) -> Reweighting:
        if fixed is None:
            records, weights = _sampled(model, names, count, generator), np.full(count, model.total / count)
        else:
            assert fixed.weights is not None
            counts = systematic(fixed.weights, count, generator)
            rows = np.flatnonzero(counts)
            records, weights = fixed.take(rows), counts[rows] * (model.total / count)
        return Reweighting(_with_missing_codes(replace(records, weights=weights), means))

    return drawn


def _with_missing_codes(records: Dataset, means: Mapping[str, np.ndarray]) -> Dataset:
    """Return weighted records, with some of independent attributes if codes lack more than `MISSING` of their records.

    All together have the same number of records as before, by weight.
    """
    assert records.weights is not None
    total, missing = float(records.weights.sum()), 0.0
    for name, counts in means.items():
        rare = np.bincount(records.column(name), records.weights, len(counts)) < NONE * total
        missing = max(missing, float(counts[rare].sum() / counts.sum()))
    if missing <= MISSING:
        return records
    added = _independent(means, records.domain, MORE_RECORDS, np.random.default_rng(0))
    codes = [np.concatenate([records.column(name), added.column(name)]) for name in records.domain]
    weights = np.append((1 - missing) * records.weights, np.full(MORE_RECORDS, missing * total / MORE_RECORDS))
    return Dataset.from_codes(codes, records.domain, weights, trusted=True)


def _sampled(model: ModelBase, names: Clique, count: int, generator: np.random.Generator) -> Dataset:
    """Draw records of a model; if it is no distribution, records of independent attributes with its marginals."""
    try:
        return model.sample(count, seed=generator).select(names)
    except QueryError:
        marginals = {name: np.maximum(model.project(name).values, 0.0) for name in names}
        return _independent(marginals, model.domain.project(names), count, generator)


def _independent(
    marginals: Mapping[str, np.ndarray], domain: Domain, count: int, generator: np.random.Generator
) -> Dataset:
    """Draw records of independent attributes."""
    columns = []
    for counts in marginals.values():
        drawn = np.repeat(np.arange(len(counts)), systematic(counts, count, generator))
        columns.append(generator.permutation(drawn))
    return Dataset.from_codes(columns, domain, trusted=True)


def _weighted_records(model: ModelBase, names: Clique) -> Dataset | None:
    """Return the records of a model over a support, with their weights; None for other models."""
    records = getattr(model, "records", None)
    if not isinstance(records, Dataset) or records.weights is None:
        return None
    return records.take(records.weights > 0).select(names)
