"""Bins: a range of numbers cut up as the schema says, and values on it."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmest.errors import count_text
from pgmest.schema.notation import SchemaNode

MOST_BINS = 10**7
"""The largest number of bins of a column; more would be a mistake in the schema."""


def uniform(first: np.ndarray, last: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw a number from each `first` to each `last`, both included: whole numbers from integers, else floats."""
    if first.dtype.kind == "i":
        return generator.integers(first, last + 1)
    return np.minimum(first + generator.random(len(first)) * (last - first), last)


def whole_bins(node: SchemaNode, fields: dict[str, SchemaNode], read: Any) -> tuple[int, tuple[int, ...]]:
    """Return the upper bound and the starts of bins of whole numbers, `read` from nodes of the schema."""
    if "edges" in fields:
        starts = _edges(fields, read)
        return starts[-1] - 1, tuple(starts[:-1])
    low, high = _bounds(node, fields, read)
    if high < low:
        fields["max"].fail(f"must be at least min ({fields['min'].shown}), not {fields['max'].shown}.")
    count = high - low + 1
    if "bins" in fields:
        bins = _bin_count(fields["bins"])
        if bins > count:
            fields["bins"].fail(f"must be at most {count:,}, as there are no more whole values, not {bins:,}.")
        return high, tuple(low + i * count // bins for i in range(bins))
    width = fields["width"].integer(1) if "width" in fields else 1
    _check_count(node, -(-count // width))
    return high, tuple(range(low, high + 1, width))


def real_edges(node: SchemaNode, fields: dict[str, SchemaNode]) -> list[float]:
    """Return the least number of each bin of real numbers, and the greatest number of the last."""
    if "edges" in fields:
        return _edges(fields, lambda edge: float(edge.number()))
    low, high = _bounds(node, fields, lambda bound: float(bound.number()))
    if not low < high:
        fields["max"].fail(f"must be more than min ({low:g}), not {high:g}.")
    if "width" in fields:
        width = float(fields["width"].number())
        if not width > 0:
            fields["width"].fail(f"must be more than 0, not {width:g}.")
        bins = max(math.ceil(min((high - low) / width, 1e300) - 1e-9), 1)
        _check_count(node, bins)
        return [*(low + width * i for i in range(bins)), high]
    if "bins" not in fields:
        node.fail("needs bins: <how many>, width: <of a bin>, or edges: [a, b, ...].")
    edges = np.linspace(low, high, _bin_count(fields["bins"]) + 1).tolist()
    if any(a >= b for a, b in itertools.pairwise(edges)):
        fields["bins"].fail("are more than there are numbers between min and max.")
    return edges


def with_points(
    fields: dict[str, SchemaNode], starts: Sequence[Any], high: Any, read: Any, following: Any
) -> tuple[Any, ...]:
    """Return the starts of bins of which each number of `points:` fills one alone, so that it is drawn exactly.

    Args:
        fields: the description of the column.
        starts, high: its bins without the points.
        read: returns the number that a node says.
        following: returns the least number above a number, where the next bin starts.
    """
    points: list[Any] = []
    for item in fields["points"].items() if "points" in fields else ():
        point = read(item)
        if not starts[0] <= point <= high:
            item.fail(f"must be within the bounds of the column, not {item.shown}.")
        place = bisect.bisect_left(points, point)
        below, above = (
            points[max(place - 1, 0) : place],
            [other for other in points[place : place + 1] if other > point],
        )
        if any(point < following(other) for other in below) or any(other < following(point) for other in above):
            item.fail(f"must not be so close to another that both share a bin, as {item.shown} is. Leave one out.")
        points[place : place + (points[place : place + 1] == [point])] = [point]
    ends = [end for end in map(following, points) if end <= high]
    places = [bisect.bisect_left(points, start) - 1 for start in starts]
    kept = [start for start, at in zip(starts, places, strict=True) if at < 0 or start >= following(points[at])]
    return tuple(sorted({*kept, *points, *ends}))


def _edges(fields: dict[str, SchemaNode], read: Any) -> list[Any]:
    """`edges: [a, b, c]`: bins from a to below b, and from b to c (of whole numbers: to below c)."""
    if not isinstance(fields["edges"].value, list):
        shown = fields["edges"].shown
        fields["edges"].fail(f"must list the ends of bins, such as [0, 18, 65], not {shown}. Their number is bins:.")
    for key in ("min", "max", "bins", "width"):
        if key in fields:
            fields[key].fail("does not go with edges, which say it all.")
    nodes = fields["edges"].items()
    edges = [read(edge) for edge in nodes]
    if len(edges) < 2:
        fields["edges"].fail("must list at least two numbers.")
    for before, after, place in zip(edges[:-1], edges[1:], nodes[1:], strict=True):
        if not before < after:
            place.fail("must ascend.")
    return edges


def _bounds(node: SchemaNode, fields: dict[str, SchemaNode], read: Any) -> tuple[Any, Any]:
    for key in ("bins", "width"):
        if key in fields and isinstance(fields[key].value, list):
            fields[key].fail(
                "must be a number, not a list. List the ends of bins as edges: [...], without min and max."
            )
    for key in ("min", "max"):
        if key not in fields:
            node.fail(f"needs '{key}:', a public bound of its values.")
    if "bins" in fields and "width" in fields:
        fields["width"].fail("does not go with bins; leave one of them out.")
    return read(fields["min"]), read(fields["max"])


def _bin_count(node: SchemaNode) -> int:
    bins = node.integer(1)
    _check_count(node, bins)
    return bins


def _check_count(node: SchemaNode, bins: int) -> None:
    if bins > MOST_BINS:
        node.fail(f"makes {count_text(bins)} bins, more than {MOST_BINS:,}; make them wider.")
