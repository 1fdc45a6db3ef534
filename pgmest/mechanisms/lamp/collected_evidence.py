"""The evidence and the number of records that follow from all answers of a curator so far."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pgmest.errors import TotalError
from pgmest.mechanisms.held_records import known_tables
from pgmest.mechanisms.invariants import possible_total
from pgmest.mechanisms.lamp.answers import counts_all, least_total
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.possible_cells import PossibleCells
from pgmest.mechanisms.lamp.public_tables import PublicTables
from pgmest.mechanisms.lamp.tree_order import OrderedCurator
from pgmest.privacy.curator import Curator
from pgmest.tables.domain import Clique


def evidence_of(
    curator: Curator,
    public: PublicTables | None = None,
    public_pairs: Iterable[Clique] = (),
    possible: PossibleCells | None = None,
) -> Evidence:
    """Return the evidence from all measurements, invariants, public tables of `public_pairs`, and structural zeros."""
    total, _ = total_of(curator)
    ordered = isinstance(curator, OrderedCurator)
    answers = [*known_tables(curator), *(curator.known_branches if ordered else ()), *curator.measurements]
    return Evidence.of(answers, curator.domain, total, public, public_pairs, possible)


def total_of(curator: Curator) -> tuple[float, float]:
    """Return the number of records and its standard error, estimated from all answers that determine it."""
    from pgmest.solvers.total import estimate_total

    if curator.fixed_total is not None:
        return curator.fixed_total, 0.0
    whole = [m for m in curator.measurements if m.query is None or all(map(counts_all, m.query.matrices))]
    try:
        found = estimate_total(whole, curator.domain)
    except TotalError:
        return possible_total(curator, least_total(curator.measurements, curator.domain)), math.inf
    return possible_total(curator, found.value), found.stddev
