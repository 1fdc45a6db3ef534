"""Synthetic records of some attributes around a draw of a posterior.

Small tables are drawn whole (`dependence`). If a table has too many cells, records of the draw's model get weights
instead: random interactions of the pairs that were not measured, and then factors under which the marginals of the
measured cliques are those of the draw (`pgmest.sampling.reweighting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import at_least
from pgmest.models.posterior.dependence import LARGEST_INTERACTION, UnmeasuredDependence
from pgmest.models.posterior.prior import NORMAL_SCALE
from pgmest.models.protocol import EstimatedModel
from pgmest.sampling.facts import Facts
from pgmest.sampling.reweighting import Reweighting
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor

MOST_CELLS = 1 << 20
"""Tables of at most this many cells are drawn whole."""
FEWEST_RECORDS, MOST_RECORDS = 50_000, 250_000
"""The least and the largest number of records of a model that get weights."""


def weighted_records(
    model: EstimatedModel, names: Clique, dependence: UnmeasuredDependence, generator: np.random.Generator
) -> Dataset:
    """Return records with weights, whose sum is the model's total.

    Args:
        model: the model of a draw.
        names: the attributes of the records.
        dependence: the measured cliques, and the strengths of the interactions of other pairs.
        generator: the random generator.
    """
    count = int(np.clip(model.total, FEWEST_RECORDS, MOST_RECORDS))
    records = model.sample(count, seed=generator).select(names)
    records = replace(records, weights=np.full(count, model.total / count))
    tilts: dict[Clique, np.ndarray] = {}
    for pair in dependence.pairs(names) if dependence.strengths else ():
        expected = model.project(pair)
        assert dependence.strengths is not None
        drawn = dependence.strengths.interactions(generator, expected.values[None], expected.domain, pair)[0]
        tilts[pair] = np.exp(np.clip(drawn, -LARGEST_INTERACTION, LARGEST_INTERACTION))
    measured = {name for clique in dependence.cliques for name in clique}
    for name in names:
        if name not in measured:
            tilts[(name,)] = np.exp(generator.normal(0.0, NORMAL_SCALE, model.domain[name]))
    targets = {clique: model.project(clique).values for clique in dependence.shared(names) if clique}
    changed = Reweighting(records)
    return replace(records, weights=changed.weights(targets, changed.tilted(tilts)[0]))


def table_records(table: Factor) -> Dataset:
    """Return a record with a weight for each cell of a table that is not empty."""
    counts = np.maximum(table.datavector(), 0.0)
    cells = np.flatnonzero(counts)
    codes = list(np.unravel_index(cells, table.domain.shape))
    return Dataset.from_codes(codes, table.domain, counts[cells], trusted=True)


def records_of(
    weighted: Dataset, n: int | None, method: str, facts: Sequence[Facts], generator: np.random.Generator
) -> Dataset:
    """Draw records by weights, as many as these sum to if n is None; see `Reweighting.sample`."""
    count = max(1, round(weighted.total)) if n is None else at_least("n", n, 1)
    assert weighted.weights is not None
    return Reweighting(weighted).sample(weighted.weights, count, method, generator, facts)
