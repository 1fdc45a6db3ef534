"""Sets of linked tables that differ in a column of weights, for analyses whose results `combine` joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgmest.analyses.sampled_tables import SampledTables
from pgmest.data.linked import LinkedDataset
from pgmest.mechanisms.linked.unit_weights import UnitWeights

WEIGHT = "weight"
"""The column of the weights, unless a table has one of this name."""


def weighted_tables(
    linked: LinkedDataset, frames: Mapping[str, Any], drawn: UnitWeights
) -> SampledTables[dict[str, Any]]:
    """Return a set of tables for each set of weights, in which each row has the weight of its unit.

    Args:
        linked: the codes of the synthetic units.
        frames: the same as dataframes, by table.
        drawn: the weights of the units.
    """
    import narwhals as nw

    tables = {name: nw.from_native(frame, eager_only=True) for name, frame in frames.items()}
    weight = WEIGHT
    while any(weight in table.columns for table in tables.values()):
        weight += "_"
    units, sets = {name: linked.units(name) for name in tables}, []
    for weights in drawn.weights:
        columns = {
            name: nw.new_series(weight, weights[units[name]], nw.Float64, backend=table.implementation)
            for name, table in tables.items()
        }
        sets.append({name: table.with_columns(columns[name]).to_native() for name, table in tables.items()})
    return SampledTables(sets, weight=weight, spread=drawn.spread)
