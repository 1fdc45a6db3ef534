"""Answers to many factored queries at once, which share common intermediate results.

Queries of one row each on the same attributes are answered together, by one contraction. Other queries share the
marginal of their attributes if it is small; otherwise they share the tables and contraction orders that variable
elimination caches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pgmest.inference.marginals.calibrated_tree import CalibratedTree
from pgmest.inference.marginals.propagation import propagate
from pgmest.inference.marginals.variable_elimination import eliminate, eliminate_rows
from pgmest.queries import Kron
from pgmest.queries.matrices import dense

SHARED_CELLS = 1 << 17
"""The most cells of a marginal for which computing and querying it is faster than a contraction."""

FEW = 4
"""The most queries of one row that are answered separately; stacking them does not pay off."""

TOGETHER = 256
"""The most queries of one row that one contraction answers, which bounds its memory."""


def answer_all(
    calibrated: CalibratedTree, queries: Sequence[Kron], evidence: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """Return the answers to factored queries about probabilities, each an array of the shape of its query.

    Args:
        calibrated: the model.
        queries: the queries, which fit the domain of the model and do not use attributes of the evidence.
        evidence: attribute -> code; only records with these codes count. The answers are not normalized.

    Raises:
        ModelTooLarge: an answer, or an intermediate table of every way to compute it, has too many cells.
    """
    answers: dict[int, np.ndarray] = {}
    on_marginals: list[int] = []
    for names, positions in _by_attributes(queries).items():
        single = [position for position in positions if queries[position].rows == 1]
        if len(single) > FEW and names:
            answers |= _in_rows(calibrated, {position: queries[position] for position in single}, evidence)
            positions = [position for position in positions if position not in answers]
        if not evidence and calibrated.cells(names) <= SHARED_CELLS:
            on_marginals += positions
        else:
            answers |= {position: eliminate(calibrated, queries[position].factors, evidence) for position in positions}
    answers |= _on_marginals(calibrated, {position: queries[position] for position in on_marginals})
    return [answers[position] for position in range(len(queries))]


def _by_attributes(queries: Iterable[Kron]) -> dict[frozenset[str], list[int]]:
    groups: dict[frozenset[str], list[int]] = defaultdict(list)
    for position, query in enumerate(queries):
        groups[frozenset(query.attributes)].append(position)
    return groups


def _on_marginals(calibrated: CalibratedTree, queries: Mapping[int, Kron]) -> dict[int, np.ndarray]:
    """Apply each query to the marginal of its attributes; a marginal of several queries is computed once."""
    tables = propagate(calibrated, [query.attributes for query in queries.values()])
    return {position: query.apply(table) for (position, query), table in zip(queries.items(), tables, strict=True)}


def _in_rows(
    calibrated: CalibratedTree, queries: Mapping[int, Kron], evidence: Mapping[str, int] | None
) -> dict[int, np.ndarray]:
    """Answer queries of one row on the same attributes, a stack of queries at a time."""
    positions = list(queries)
    answers: dict[int, np.ndarray] = {}
    for start in range(0, len(positions), TOGETHER):
        part = positions[start : start + TOGETHER]
        names = calibrated.ordered(queries[part[0]].attributes)
        factors = [queries[position].factors for position in part]
        stacked = {name: dense(np.stack([matrices[name].row() for matrices in factors])) for name in names}
        values = eliminate_rows(calibrated, stacked, evidence)
        answers |= {
            position: value.reshape(queries[position].answer_shape)
            for position, value in zip(part, values, strict=True)
        }
    return answers
