"""What a report can say without the private data: what was released, at what cost, and how well it fits its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import listed, percent_text, plural
from pgmest.evaluation.expected_error import measured_tables
from pgmest.evaluation.reports.page import facts, notice, paragraph, picture, pictures, preformatted, section, table
from pgmest.inference.exact.structural_zeros import StructuralZeros, zero_potentials
from pgmest.models.exact import Model
from pgmest.models.protocol import EstimatedModel
from pgmest.privacy.ledger import COLUMNS, Statement
from pgmest.privacy.statement import PrivacyStatement
from pgmest.queries.workloads import Projectable
from pgmest.queries.workloads.answers import marginals
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_TABLES = 40
SHOWN_LABELS = 8


def promise(statement: PrivacyStatement) -> str:
    """What is protected, how strongly, by what and since when: the first thing that a reader sees."""
    meaning = [notice(text) for text in statement.caveats] or [paragraph(statement.meaning)]
    return section("The promise of privacy", facts(statement.rows()), *meaning)


def expected_errors(source: Any, records: float) -> str:
    """What the noise on each table that was measured makes of it: the second thing that a reader wants to know."""
    measured = measured_tables(getattr(source, "measurements", None) or (), records)
    if not measured:
        return ""
    rows = [
        (
            " × ".join(one.clique),
            f"{one.cells:,}",
            _number(one.mean_count),
            _number(one.stddev),
            percent_text(one.error, 1),
        )
        for one in measured[:SHOWN_TABLES]
    ]
    parts = [
        paragraph(
            "Each of these tables was measured with noise. The last column is about the share of the records that the "
            "noise alone would put into a wrong cell of the table; what other tables say makes it less. Tables that "
            "are not listed were not measured: what the release says about them follows from those that were."
        ),
        table(("table", "cells", "records in a cell", "noise on a cell", "expected error"), rows),
    ]
    if len(measured) > SHOWN_TABLES:
        parts.append(paragraph(f"{len(measured) - SHOWN_TABLES:,} more tables have more noise."))
    return section("What error to expect", *parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def what_was_released(source: Projectable, domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    """The attributes, what their codes stand for where that is known, and the number of records."""
    bought = getattr(source, "details", {}).get("bought", {})
    paid = [
        paragraph("Part of the schema was bought from the records for a part of the budget:"),
        facts(bought.items()),
    ]
    total = float(source.project(()))
    modeled = isinstance(getattr(source, "model", source), EstimatedModel)
    kind = "a statistical model" if modeled else "synthetic records"
    return section(
        "What was released",
        paragraph(f"This release is {kind} of about {total:,.0f} records with {plural(len(domain), 'attribute')}."),
        _attributes(domain, labels),
        *(paid if bought else ()),
    )


def cost(ledger: Any) -> str:
    """The ledger; long, and therefore last."""
    if ledger is None:
        text = "No ledger was given, so this page cannot say what the release cost in privacy."
        return section("What it cost in privacy", paragraph(text))
    return section(
        "What it cost in privacy",
        paragraph("Every question that was put to the private data, in order, and what it cost:"),
        *_entries(ledger),
    )


def _entries(ledger: Any) -> list[str]:
    """A statement's summary, and its entries as a table; of anything else its text."""
    if not isinstance(ledger, Statement):
        return [preformatted(str(ledger))]
    summary = f"{ledger.total} of {ledger.budget} was spent on {plural(len(ledger), 'request')}."
    delta = f" A delta of {ledger.threshold_delta:.3g} was spent on thresholds." if ledger.delta else ""
    texts = ("what for", "kind", "details")
    return [paragraph(summary + delta), table(COLUMNS, ledger.rows(), texts=texts)]


def _attributes(domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    if not labels:
        return table(("attribute", "values"), [(name, f"{size:,}") for name, size in domain.items()])
    rows = [(name, f"{size:,}", listed(labels[name], SHOWN_LABELS)) for name, size in domain.items()]
    return table(("attribute", "values", "which are"), rows, texts=("which are",))


def agreement_with_answers(model: Model) -> str:
    """How far the model is from the noisy answers that it was made from, in units of their noise."""
    measured = model.measurements or ()
    if not measured:
        return ""
    tables = marginals(model, [measurement.clique for measurement in measured])
    rows = []
    for measurement, factor in zip(measured, tables, strict=True):
        residual = (measurement.answer(factor) - measurement.values) / measurement.stddev
        spread = float(np.sqrt(np.mean(np.square(measurement.stddev))))
        rows.append((measurement, spread, float(np.sqrt(np.mean(residual**2)))))
    rows.sort(key=lambda row: -row[2])
    shown = [
        (" × ".join(measurement.clique) or "total", f"{measurement.rows:,}", _number(spread), f"{residual:.2f}")
        for measurement, spread, residual in rows[:SHOWN_TABLES]
    ]
    parts = [
        paragraph(
            "The model was fitted to these noisy answers. The noise is the standard deviation of one answer, in "
            "records. The last column is how far the model is from the answers, measured in that noise: below or "
            "around 1 the difference is no more than the noise explains; well above 1 the answers contradict one "
            "another, or the model left something out."
        ),
        table(("table", "answers", "noise", "distance in noise"), shown),
    ]
    if len(rows) > SHOWN_TABLES:
        parts.append(paragraph(f"{len(rows) - SHOWN_TABLES:,} more tables fit better than these."))
    if model.report is not None:
        parts.append(preformatted(str(model.report)))
    return section("How well the model fits the noisy answers", *parts)


def released_marginals(source: Projectable, domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    """Pictures of the released one-way marginals."""
    from pgmest.evaluation.plots import draw_marginals

    def drawn(name: str) -> tuple[Figure, str]:
        return draw_marginals(source, [name], labels=labels, across=1), f"Released counts of each value of {name}"

    names = list(domain)[:SHOWN_TABLES]
    return section(
        "What the release says about each attribute",
        paragraph("The number of records with each value, as released. These are estimates, not the true numbers."),
        pictures(map(drawn, names)),
    )


def released_dependences(source: Projectable, domain: Domain) -> str:
    """A picture of how strongly each pair of attributes goes together in the release."""
    from pgmest.evaluation.plots import draw_dependences

    pairs = [name for name, size in domain.items() if size > 1]
    if not 2 <= len(pairs) <= SHOWN_TABLES:
        return ""
    return section(
        "What goes together in the release",
        paragraph(
            "Dark squares are attributes that tell something about each other in the release: 0 means that they are "
            "independent there, 1 that one determines the other."
        ),
        picture(draw_dependences(source, pairs), "The dependence of each pair of attributes in the release"),
    )


def impossible_records(source: Projectable, domain: Domain, zeros: StructuralZeros) -> str:
    """How many released records break the rules given."""
    potentials = zero_potentials(zeros, domain)
    rows, tables = [], marginals(source, potentials.cliques)
    for clique, factor in zip(potentials.cliques, tables, strict=True):
        excluded = np.isneginf(potentials[clique].values)
        found = float(factor.values[excluded].sum())
        rows.append((" × ".join(clique), f"{int(excluded.sum()):,}", f"{found:,.1f}"))
    return section(
        "Records that cannot be",
        paragraph(
            "Some combinations of values were declared impossible. The last column is how many released records have "
            "one of them; it should be 0."
        ),
        table(("attributes", "impossible combinations", "released records"), rows),
    )
