"""The sections of a report that compare the release with the private data, for the data owner only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.widths import joined, short_names
from pgmest.errors import listed, percent_text, plural
from pgmest.evaluation.reports.page import DOTS, bullets, notice, paragraph, picture, section, table
from pgmest.evaluation.workload_error import marginal_errors, workload_error
from pgmest.measurements.measured_tables import MODELED, MeasuredCliques
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.workloads import Projectable, Workload
from pgmest.workloads.answers import marginals

if TYPE_CHECKING:
    from pgmest.schema.check import TableCheck

SHOWN = 6
"""The most marginals that a section lists."""

MEANING = (
    "The error of a table is the share of the records that would have to be moved to other cells to make it equal to "
    "the true one (total variation distance): 0 % is a perfect table, 100 % has nothing in common with it. For "
    "comparison, the sampling error is the typical error of a second survey of as many people: errors of that size do "
    "not matter."
)


def raw_table(check: TableCheck | None) -> str:
    """Return the section on how the schema fits the raw table."""
    heading = "How the schema fits the raw table"
    if check is None:
        text = (
            "This page compares the release with the encoded table, not with the raw table: values that the schema "
            "clipped, could not read, or put into one bin are not visible here. `pgmest check TABLE SCHEMA` shows them."
        )
        return section(heading, paragraph(text))
    text = (
        f"{percent_text(check.kept, 1)} of the values in the raw table fit the schema. All errors below compare with "
        "the encoded table: they do not include what the encoding has lost."
    )
    short = short_names(column.name for column in check.columns)
    remarks = [f"{short.get(name, name)}: {remark}" for name, remark, _ in check.remarks()]
    heads, rows = check.table()
    left = f"Not in the schema, so left out: {listed(check.left_out, 20)}." if check.left_out else ""
    return section(
        heading,
        notice(check.verdict) if check.alarming else paragraph(check.verdict),
        bullets(remarks) if remarks else "",
        table(heads, [(short[name], *cells) for name, *cells in rows], texts=("commonest",)),
        paragraph(left) if left else "",
        paragraph(text),
    )


def one_way(real: Projectable, released: Projectable, domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    """Return the section on the one-way marginals, the least accurate first, in numbers and pictures."""
    from pgmest.plots import compare_marginals

    errors = marginal_errors(real, released, domain.attributes)
    drawn = _worst_and_best(list(errors), SHOWN - SHOWN % 4 or 4)
    return section(
        "One attribute at a time",
        paragraph(MEANING),
        _error_table(real, errors, len(errors), released),
        paragraph("The least accurate and the most accurate of them; the area is true, the line is released."),
        picture(
            compare_marginals(real, released, drawn, _measured(released, drawn), labels=labels),
            "True and released counts of single attributes",
        ),
    )


def two_way(real: Projectable, released: Projectable, pairs: Workload, labels: Mapping[str, Sequence[str]]) -> str:
    """Return the section on the two-way marginals: a matrix of errors, and the worst and best pairs side by side."""
    from pgmest.plots import compare_marginals, draw_pair_errors
    from pgmest.plots.style import MOST_NAMED

    errors = marginal_errors(real, released, pairs.cliques)
    values = np.array(list(errors.values()))
    parts = [
        paragraph(
            "Tables of two attributes show whether the release keeps the dependences of attributes. Of the "
            f"{plural(len(errors), 'pair')} compared, the average error is {_percent(values.mean())}, half are below "
            f"{_percent(np.median(values))}, and the worst is {_percent(values.max())}."
        )
    ]
    if len({name for clique in errors for name in clique}) <= MOST_NAMED:
        measured = _measured(released, list(errors))
        if measured is not None:
            parts.append(paragraph(DOTS))
        drawn_errors = draw_pair_errors(errors, measured=measured)
        parts.append(picture(drawn_errors, "The error of each pair of attributes; dark is bad"))
    drawn = _worst_and_best(list(errors), 4)
    parts += [
        paragraph("The least accurate pairs:"),
        _error_table(real, errors, SHOWN, released),
        paragraph("The least and the most accurate pairs; true at the left, released at the right, on one scale."),
        picture(
            compare_marginals(real, released, drawn, _measured(released, drawn), labels=labels),
            "True and released counts of pairs of attributes",
        ),
        _unseen(real, released, list(errors)),
    ]
    return section("Two attributes together", *parts)


def workload_section(real: Projectable, released: Projectable, workload: Workload) -> str:
    """Return the section on the workload error, in the usual normalizations."""
    in_counts = workload_error(real, released, workload, per="query")
    tv, relative = (workload_error(real, released, workload, norm="tv", per=per) for per in ("record", "answer"))
    rows = [
        ("one answer is off by, on average (records)", f"{in_counts:,.2f}"),
        ("average distance per table, total variation (L1 / 2N)", _percent(tv)),
        ("the same relative to the sum of the true answers", _percent(relative)),
    ]
    return section(
        "The questions that matter",
        paragraph(
            f"The release was asked {plural(len(workload), 'table')} of the workload, that is, of the questions it "
            "was made for, or all tables of two attributes where none was named."
        ),
        table(("error on the workload", "value"), rows),
    )


def _unseen(real: Any, released: Projectable, cliques: Sequence[Clique]) -> str:
    """Return a paragraph on the released records in cells that are empty in the data."""
    shares = []
    for mine, theirs in zip(marginals(real, cliques), marginals(released, cliques), strict=True):
        share = float(np.maximum(theirs.values[mine.values == 0], 0.0).sum()) / max(float(theirs.values.sum()), 1e-300)
        shares.append(share)
    worst = sorted(zip(shares, cliques, strict=True), reverse=True)[:SHOWN]
    return paragraph(
        "Combinations of two values that nobody in the data has are not errors as such, but many of them are a sign of "
        f"noise: on average over the pairs, {_percent(float(np.mean(shares)))} of the released records have one; "
        "the largest shares are in "
        + ", ".join(f"{joined(clique, real.domain)} ({_percent(share)})" for share, clique in worst)
        + "."
    )


def _error_table(real: Projectable, errors: Mapping[Clique, float], count: int, released: Any) -> str:
    """Return a table of the first errors, with the evidence behind each if the release has its measured cliques."""
    shown, known = list(errors.items())[:count], MeasuredCliques.of(released)
    tables = marginals(real, [clique for clique, _ in shown])
    rows = [
        (joined(clique, released.domain), _percent(error), _percent(sampling_error(factor)), f"{factor.values.size:,}")
        for (clique, error), factor in zip(shown, tables, strict=True)
    ]
    heading = ("table", "error", "sampling error", "cells")
    if known is None:
        return table(heading, rows)
    marked = [(*row, known.evidence(clique)) for row, (clique, _) in zip(rows, shown, strict=True)]
    return table((*heading, "evidence"), marked, texts=("evidence",))


def _measured(released: Any, cliques: Sequence[Clique]) -> list[Clique] | None:
    """Return the cliques that were measured, at least with values merged; None if that is not known."""
    known = MeasuredCliques.of(released)
    return None if known is None else [clique for clique in cliques if known.evidence(clique) != MODELED]


def sampling_error(marginal: Factor) -> float:
    """Return the approximate total variation distance of as many new records from the same distribution.

    This is half the sum over cells of E|n / N - p|, which is about sqrt(2 p (1 - p) / (pi N)) for large N p, and at
    most 2 p (1 - p).

    >>> round(sampling_error(Factor({"sex": 2}, [5000, 5000])), 4)
    0.004
    """
    records = float(marginal.values.sum())
    p = marginal.values / records
    spread = p * (1.0 - p)
    return 0.5 * float(np.minimum(np.sqrt(2.0 * spread / (np.pi * records)), 2.0 * spread).sum())


def _worst_and_best(cliques: Sequence[Clique], count: int) -> list[Clique]:
    """Return the first and the last cliques, at most `count` in all."""
    if len(cliques) <= count:
        return list(cliques)
    return [*cliques[: count - count // 2], *cliques[len(cliques) - count // 2 :]]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.1f} %"
