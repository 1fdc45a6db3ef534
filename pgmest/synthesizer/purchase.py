r"""Purchase: bounds and values that are not public, bought from the records for a part of the budget.

A schema says what is to be bought (`pgmest.schema.bought`). Each request goes through the curator, is charged to
its ledger, and is about a coding of the table that is public when it is asked for. What comes back is public, and so is
the schema made of it: everything here that is no request is post-processing.

**A range** is bought with three choices of the exponential mechanism (pure budgets: permute-and-flip). First the cell
of the median is chosen among those of a public grid, as wide as numbers go, with the score $-\max(\text{records below
it, above it})$; then each end among edges $e_0 < \dots < e_m$ ever further away from that cell. The upper end $e_j$ has
the score

.. math:: - |\{x \ge e_j\}| - s j,

the records that would be clipped, less a public preference for tight bounds: an edge further out has to spare s. One
person moves a score by at most the records of one, and all of them in one direction where persons come or go, so that
half the noise does (`monotone`). s is as large as the noise, hence the chance to land further out falls geometrically,
however wide the grid is. At last the records inside and outside are counted with noise, which tells how many are
clipped, and whether there are any.

**Values of a public list** that
occur have a noisy count clear of the noise. **Values that nobody listed** have one above a threshold, which costs delta
(`pgmest.privacy.thresholds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import SchemaError, listed
from pgmest.privacy.budgets import Budget, equal_parts
from pgmest.privacy.curator import Curator
from pgmest.privacy.neighbors import AddRemove
from pgmest.privacy.selection import STEPS, noise_scale
from pgmest.schema.bought import NOTHING, BoughtColumn
from pgmest.schema.categorical import written as text_of
from pgmest.schema.hierarchies import with_values
from pgmest.schema.schema import Schema
from pgmest.schema.texts import Texts
from pgmest.synthesizer.bought_grids import Edge, end_edges, last_before, median_edges, on_grid, written
from pgmest.synthesizer.publishable import publishable
from pgmest.synthesizer.raw_table import Coding

SPARED = 1.0
"""The margin, in scales of the noise, that each edge further out needs."""
FEW_WRONG = 100
"""About one of this many public lists with one value that does not occur keeps that value."""
CLEAR = 4.0
"""The number of standard deviations of the noise below which a count says nothing."""


@dataclass(frozen=True)
class Purchase:
    """The schema after the purchase, and the results in words.

    Attributes:
        schema: with it; nothing in it is to be bought any more.
        found: for each column what was found, in words.
    """

    schema: Schema
    found: Mapping[str, str]


def purchase(curator: Curator, schema: Schema, spend: Budget, delta: float = 0.0) -> Purchase:
    """Buy everything that a schema asks for.

    Args:
        curator: of a `RawTable`.
        schema: with columns to be bought.
        spend: what to pay in all at most, of the curator's type: Rho or Epsilon. Equal parts go to all columns.
        delta: what to pay besides for values that nobody listed; equal parts, too.

    Raises:
        SchemaError: nothing is to be bought; or values that nobody listed, without a delta.
        BudgetExceeded, BudgetTypeError, ArgumentError: as for `Curator.select`.
    """
    if not schema.bought:
        raise SchemaError(f"{schema.source} has nothing to be bought: no column says bounds: bought, or the like.")
    labels = unlisted(schema)
    if labels and not delta:
        raise SchemaError(
            f"{schema.source}: values of {listed(labels)} are to be bought that nobody listed, which takes a delta: "
            "state the budget with --delta (delta=), or list them with among: [...]."
        )
    described, found = {}, {}
    deltas = iter(equal_parts(delta, len(labels)))
    for column, part in zip(schema.bought.values(), spend.split(len(schema.bought)), strict=True):
        if not column.labels:
            described[column.name], found[column.name] = _range(curator, column, part)
        elif column.among:
            described[column.name], found[column.name] = _listed(curator, column, part)
        else:
            described[column.name], found[column.name] = _frequent(curator, column, part, next(deltas))
    return Purchase(schema.with_columns(described), found)


def unlisted(schema: Schema) -> list[str]:
    """Return the columns whose values are to be bought without a public list."""
    return [column.name for column in schema.bought.values() if column.labels and not column.among]


# -- ranges -----------------------------------------------------------------------------------------------------------


def _range(curator: Curator, column: BoughtColumn, spend: Budget) -> tuple[dict[str, Any], str]:
    """Return the description of a column of numbers or dates with its bounds; and the result in words."""
    for_median, for_min, for_max, for_check = spend.split(4)
    edges = median_edges(column.kind)
    median = edges[_chosen(curator, column, edges, range(len(edges) - 1), for_median, "middle", _off_center)]
    edges = end_edges(column.kind, median)
    center, cells = edges.index(median), len(edges) - 1
    spared = SPARED * noise_scale(for_min, _monotone(curator)) / STEPS * curator.neighbors.records

    def clipped_below(below: np.ndarray) -> np.ndarray:
        return below[:-1] + spared * np.arange(cells)[::-1]

    def clipped_above(below: np.ndarray) -> np.ndarray:
        return below[-1] - below[1:] + spared * np.arange(cells)

    low = edges[_chosen(curator, column, edges, range(center + 1), for_min, "min", clipped_below)]
    high = edges[_chosen(curator, column, edges, range(center, cells), for_max, "max", clipped_above) + 1]
    bounds = written(column.kind, low), written(column.kind, last_before(column.kind, high))
    words = f"{_shown(bounds[0])} to {_shown(bounds[1])}; {_checked(curator, column, (low, high), for_check)}"
    return column.settled(*bounds, 10**9 if column.kind == "real" else int(high - low)), words


def _shown(bound: Any) -> str:
    return f"{bound:.12g}" if isinstance(bound, float) else str(bound)


def _off_center(below: np.ndarray) -> np.ndarray:
    """Return for each cell the number of records on the side of it that has more of them."""
    return np.maximum(below[:-1], below[-1] - below[1:])


def _monotone(curator: Curator) -> bool:
    return isinstance(curator.neighbors, AddRemove)


def _chosen(
    curator: Curator,
    column: BoughtColumn,
    edges: Sequence[Edge],
    candidates: range,
    spend: Budget,
    label: str,
    cost: Callable[[np.ndarray], np.ndarray],
) -> int:
    """Choose a cell of the grid with a small cost, a function of the number of records below each edge."""
    view, cells = curator.through(Coding((on_grid(column, edges),))), len(edges) - 1

    def scores(data: Dataset) -> np.ndarray:
        counts = data.project((column.name,)).values[:cells]
        return -cost(np.concatenate([[0.0], np.cumsum(counts)]))[candidates.start : candidates.stop]

    options = {"monotone": _monotone(curator), "label": f"{column.name}: {label}"}
    return view.select(candidates, scores, curator.neighbors.records, spend, **options)


def _checked(curator: Curator, column: BoughtColumn, ends: tuple[Edge, Edge], spend: Budget) -> str:
    """Return in words how many values are outside."""
    first, *_, last = median_edges(column.kind)
    edges = sorted({first, *ends, last})
    view = curator.through(Coding((on_grid(column, edges),)))
    measured = view.measure((column.name,), spend, label=f"{column.name}: inside and outside")
    counts, noise = measured.values[: len(edges) - 1], float(np.mean(measured.stddev))
    inside = float(counts[edges.index(ends[0])])
    outside = max(float(counts.sum()) - inside, 0.0) + 2 * noise * math.sqrt(len(counts) - 1)
    if inside < CLEAR * noise:
        return "HARDLY ANY VALUES ARE KNOWN TO BE THERE for all the noise: state bounds, or spend more on them"
    return f"at most about {100 * outside / (inside + outside):.2g} % of the values are outside"


# -- values -----------------------------------------------------------------------------------------------------------


def _listed(curator: Curator, column: BoughtColumn, spend: Budget) -> tuple[dict[str, Any], str]:
    """Return the values of a public list whose noisy counts exceed the noise, or the largest one."""
    view = curator.through(Coding((column.column(values=list(column.among)),)))
    measured = view.measure((column.name,), spend, label=f"{column.name}: values")
    noisy = measured.values[: len(column.among)]
    clear = float(np.mean(measured.stddev)) * math.sqrt(2 * math.log(FEW_WRONG * len(column.among)))
    kept = [value for value, count in zip(column.among, noisy, strict=True) if count >= clear]
    words = f"{len(kept)} of {len(column.among)} values"
    if not kept:
        kept = [column.among[int(np.argmax(noisy))]]
        words = f"THE NOISE HID WHICH of {len(column.among)} values occur, but one: spend more on them"
    texts = set(map(text_of, kept))  # aliases of the other values would make the description invalid
    aliases = {value: others for value, others in column.plain("aliases", {}).items() if value in texts}
    others = [] if column.plain("other") is None else [text_of(column.plain("other"))]
    hierarchy = with_values(column.plain("hierarchy"), [*texts, *others])
    return column.described(values=kept, aliases=aliases or None, hierarchy=hierarchy), words


def _frequent(curator: Curator, column: BoughtColumn, spend: Budget, delta: float) -> tuple[dict[str, Any], str]:
    """Return the values with a noisy count above the threshold."""
    markers = column.column(values=[NOTHING]).markers
    fold = bool(column.plain("ignore_case", False))
    texts = Texts(column.name, True, markers, "missing", column.node.place, ignore_case=fold)
    view = curator.through(Coding((texts,)))

    def counts(data: Dataset) -> dict[str, int]:
        codes, numbers = np.unique(data.column(column.name), return_counts=True)
        found = zip(codes.tolist(), numbers.tolist(), strict=True)
        spellings = texts.spellings
        return {spellings[code]: number for code, number in found if code != texts.gap_code}

    released = view.frequent(counts, spend, delta, label=f"{column.name}: values")
    shown = {label: publishable(label) for label in released}
    reserved = {str(column.plain("other")).lower(), *(label.lower() for label in released)}
    kept, aliases = [], dict(column.plain("aliases", {}))
    for label, safe in shown.items():
        if safe == label and label.lower() != str(column.plain("other")).lower():
            kept.append(label)
        elif safe is not None and safe != label and safe.lower() not in reserved:
            kept.append(safe)
            aliases[safe] = [label]
    unsafe = sum(safe is None for safe in shown.values())
    words = f"{len(kept)} values that are frequent enough"
    if unsafe:
        words += f"; {unsafe} more cannot be published as text, and count as others"
    if not kept:
        words = "NO VALUE WAS FREQUENT ENOUGH to be distinguished from noise: list values, or spend more on them"
    return column.described(values=kept or [NOTHING], aliases=aliases or None), words
