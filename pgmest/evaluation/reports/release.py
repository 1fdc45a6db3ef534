"""The sections of a report that do not need the private data: the release, its privacy cost, and its fit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.html import html_text
from pgmest._base.widths import joined, key_of_names, short_names, shortened
from pgmest.errors import PgmestError, listed, percent_text, plural
from pgmest.evaluation.reports.page import DOTS, facts, notice, paragraph, picture, pictures, section, table
from pgmest.inference.exact.structural_zeros import StructuralZeros, zero_potentials
from pgmest.measurements.measured_tables import IN_GROUPS, MEASURED, MODELED, MeasuredCliques, measured_tables
from pgmest.models.error_bars import interval
from pgmest.models.exact import Model
from pgmest.models.protocol import EstimatedModel
from pgmest.privacy.ledger import Statement
from pgmest.privacy.ledger_text import COLUMNS, MOST_LISTED, SUMMARY_COLUMNS
from pgmest.privacy.statement import PrivacyStatement
from pgmest.tables.domain import Clique, Domain
from pgmest.workloads import Projectable
from pgmest.workloads.answers import marginals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pgmest.evaluation.reports.margins import TableErrors
    from pgmest.schema import LinkedSchema, Schema

SHOWN_TABLES = 40
"""The most tables that a section lists."""

SHOWN_NAMES = 100
"""The most tables that a sentence lists."""

SHOWN_LABELS = 8
"""The most labels of an attribute that are listed."""


LONGEST_LINE = 2000
"""The most characters of a line of the schema; code books are longer."""

EXACT = " Tables that are exact are published without noise, which the section on privacy explains."
"""The sentence on tables that invariants hold."""


def promise(statement: PrivacyStatement, errors: Mapping[str, TableErrors]) -> str:
    """Return the section on the privacy guarantee: the unit, the guarantee, the mechanism and the date.

    Args:
        statement: the statement of the release.
        errors: the likely errors of the counts of each table; of a single one by an empty name.
    """
    rows, said = statement.rows(), []
    place = [name for name, _ in rows].index("mechanism")
    for name, one in errors.items():
        of = f" of {name}" if name else ""
        said += [(f"measured{of}", one.measured)] if one.measured else []
        said += [(f"a count{of} is typically off by", one.summary)] if one.summary else []
    meaning = [notice(text) for text in statement.caveats] or [paragraph(statement.meaning)]
    exposure = [paragraph(statement.exposure)] if statement.exposure else []
    return section("The promise of privacy", facts([*rows[:place], *said, *rows[place:]]), *meaning, *exposure)


def expected_errors(source: Any, records: float) -> str:
    """Return the section on the error that the noise causes in each measured table."""
    exact = getattr(source, "invariants", ())
    measured = measured_tables(getattr(source, "measurements", None) or (), records, source.domain, exact)
    if not measured:
        return ""
    rows = [
        (
            joined(one.clique, source.domain),
            _number(one.stddev) if one.stddev else "none",
            percent_text(one.error, 1) if one.stddev else "exact",
        )
        for one in measured[:SHOWN_TABLES]
    ]
    parts = [
        paragraph(
            "Each of these tables was measured with noise. The last column is the approximate share of the records "
            "that the noise alone would put into a wrong cell of the table; information from other tables reduces it."
            + (EXACT if any(not one.stddev for one in measured) else "")
        ),
        table(("table", "noise of an answer", "expected error"), rows),
    ]
    if len(measured) > SHOWN_TABLES:
        parts.append(paragraph(f"{len(measured) - SHOWN_TABLES:,} more tables were measured, with more noise."))
    return section("What error to expect", *parts, *map(paragraph, _not_measured(source)))


def _not_measured(source: Any) -> list[str]:
    """Return sentences that list the single attributes that were not measured, and what was measured in groups."""
    known = MeasuredCliques.of(source)
    if known is None:
        return []
    found = []
    for size, noun in ((1, "attribute"), (2, "pair")):
        by_evidence: dict[str, list[str]] = {}
        cliques = list(itertools.combinations(source.domain, size))
        for clique in cliques:
            by_evidence.setdefault(known.evidence(clique), []).append(joined(clique, source.domain))
        of = f"of {plural(len(cliques), noun)}" if cliques else ""
        if grouped := by_evidence.get(IN_GROUPS):
            text = f"Measured with some values merged: {len(grouped):,} {of}: {listed(grouped, SHOWN_NAMES)}."
            found.append(f"{text} Within merged values, the release is modeled.")
        if size == 1 and (modeled := by_evidence.get(MODELED)):  # `kept_dependences` lists the pairs
            text = f"NOT measured, only modeled: {len(modeled):,} {of}: {listed(modeled, SHOWN_NAMES)}."
            found.append(f"{text} The release has them as the measured tables imply; nothing says how wrong they are.")
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def what_was_released(source: Projectable, domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    """Return the section on the attributes, with the labels of their codes if given, and the number of records."""
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


def full_names(domain: Domain) -> str:
    """Return the section with the full names of attributes that are shortened elsewhere; empty without such names."""
    key = key_of_names(short_names(domain))
    return section("Full names", facts(key)) if key else ""


def schema_text(schema: Schema | LinkedSchema) -> str:
    """Return the section with the schema, which is public, as YAML with a line for each column."""
    return section("The schema", html_text("\n".join(_lines(schema.description))))


def _lines(node: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield a description as YAML: lines for tables and columns, and the values of all other keys as JSON."""
    for key, value in node.items():
        if key == "frame":  # the types of synthetic tables are no part of what a person writes
            continue
        name = json.dumps(key, ensure_ascii=False) if not str(key).isidentifier() else key
        if isinstance(value, Mapping) and (key in ("tables", "columns") or "columns" in value):
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield shortened(f"{indent}{name}: {json.dumps(value, ensure_ascii=False, default=str)}", LONGEST_LINE)


def cost(ledger: Any) -> str:
    """Return the section on the ledger, which may be long and is therefore the last one."""
    if ledger is None:
        text = "No ledger was given, so this page cannot show what the release cost in privacy."
        return section("What it cost in privacy", paragraph(text))
    return section("What it cost in privacy", *_entries(ledger))


def _entries(ledger: Any) -> list[str]:
    """Return the summary and the entries of a statement, or the text of any other ledger."""
    if not isinstance(ledger, Statement):
        return [html_text(ledger)]
    summary = f"{ledger.spending[0].upper()}{ledger.spending[1:]}."
    delta = f" A delta of {ledger.threshold_delta:.3g} was spent on thresholds." if ledger.delta else ""
    if len(ledger) > MOST_LISTED:
        text = f"The sums by kind; the file of --spent, or the ledger, has each of the {len(ledger):,} requests:"
        return [paragraph(summary + delta), paragraph(text), table(SUMMARY_COLUMNS, ledger.summary(), ("of",))]
    text = "Every question that was put to the private data, in order, with its cost:"
    rows = table(COLUMNS, ledger.rows(), texts=("what for", "kind", "details"))
    return [paragraph(summary + delta), paragraph(text), rows]


def _attributes(domain: Domain, labels: Mapping[str, Sequence[str]]) -> str:
    rows = [(joined((name,), domain), f"{size:,}") for name, size in domain.items()]
    if not labels:
        return table(("attribute", "values"), rows)
    shown = [", ".join(shortened(label) for label in labels[name][:SHOWN_LABELS]) for name in domain]
    whole = [text if size <= SHOWN_LABELS else f"{text}, ..." for text, size in zip(shown, domain.shape, strict=True)]
    listed_rows = [(*row, text) for row, text in zip(rows, whole, strict=True)]
    return table(("attribute", "values", "which are"), listed_rows, texts=("which are",))


def agreement_with_answers(model: Model) -> str:
    """Return the section on the distances of the model from its noisy answers, in units of their noise."""
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
        (joined(measurement.clique, model.domain), f"{measurement.rows:,}", _number(spread), f"{residual:.2f}")
        for measurement, spread, residual in rows[:SHOWN_TABLES]
    ]
    parts = [
        paragraph(
            "The model was fitted to these noisy answers. The noise is the standard deviation of one answer, in "
            "records. The last column is the distance of the model from the answers, in units of the noise: up to "
            "about 1, the noise explains the difference; well above 1, the answers contradict one another, or the "
            "model lacks a dependence."
        ),
        table(("table", "answers", "noise", "distance in noise"), shown),
    ]
    if len(rows) > SHOWN_TABLES:
        parts.append(paragraph(f"{len(rows) - SHOWN_TABLES:,} more tables fit better than these."))
    if model.report is not None:
        parts.append(html_text(model.report.published()))
    return section("How well the model fits the noisy answers", *parts)


def released_marginals(
    source: Projectable, domain: Domain, labels: Mapping[str, Sequence[str]], widths: Mapping[str, np.ndarray]
) -> str:
    """Return the section with pictures of the released one-way marginals, with their intervals if the model has any.

    Args:
        source: the release.
        domain: the attributes.
        labels: attribute -> the labels of its codes.
        widths: attribute -> the widths of its bins, for the first codes.
    """
    from pgmest.plots import draw_marginals

    model: Any = getattr(source, "model", source)
    sure = set[str]()

    def drawn(name: str) -> tuple[Figure, str]:
        ends = {}
        if getattr(model, "known_errors", None) is not None:
            with suppress(PgmestError):  # no errors can be drawn of some kinds of answers
                bars = interval(model, (name,), kind="errors")
                ends[name] = bars.low.values, bars.high.values
        figure = draw_marginals(source, [name], labels=labels, across=1, widths=widths, ends=ends)
        sure.update(ends)
        return figure, f"Released counts of each value of {name}"

    names = list(domain)[:SHOWN_TABLES]
    known = MeasuredCliques.of(source)
    modeled = [name for name in domain if known is not None and known.evidence((name,)) != MEASURED]
    which = f" Not measured as they are: {listed([joined((name,), domain) for name in modeled], SHOWN_NAMES)}."
    shown = pictures(map(drawn, names))
    text = "The number of records with each value, as released. These are estimates, not the true numbers."
    text += " Of the true numbers, 95 of 100 are within the dark lines." if sure else ""
    return section("What the release says about each attribute", paragraph(text + (which if modeled else "")), shown)


def released_dependences(source: Projectable, domain: Domain) -> str:
    """Return the section with a picture of the dependence of each pair of attributes in the release."""
    from pgmest.plots import draw_dependences

    pairs = [name for name, size in domain.items() if size > 1]
    if not 2 <= len(pairs) <= SHOWN_TABLES:
        return ""
    measured = _measured_pairs(source, pairs)
    return section(
        "Dependences in the release",
        paragraph(
            "Dark squares are pairs of attributes that depend on each other in the release: 0 means no more than "
            "values in random order do by chance, 1 that one determines the other. The noise of a measured table can "
            "look like a dependence, too." + (f" {DOTS}" if measured else "")
        ),
        picture(
            draw_dependences(source, pairs, measured=measured),
            "The dependence of each pair of attributes in the release",
        ),
    )


def _measured_pairs(source: Any, names: Sequence[str]) -> list[Clique] | None:
    """Return the pairs of attributes that were measured; None if that is not known."""
    known = MeasuredCliques.of(source)
    return None if known is None else [c for c in itertools.combinations(names, 2) if known.evidence(c) != MODELED]


def impossible_records(source: Projectable, domain: Domain, zeros: StructuralZeros) -> str:
    """Return the section on the released records with combinations that cannot occur."""
    potentials = zero_potentials(zeros, domain)
    rows, tables = [], marginals(source, potentials.cliques)
    for clique, factor in zip(potentials.cliques, tables, strict=True):
        excluded = np.isneginf(potentials[clique].values)
        found = float(factor.values[excluded].sum())
        rows.append((joined(clique, domain), f"{int(excluded.sum()):,}", f"{found:,.1f}"))
    return section(
        "Impossible records",
        paragraph(
            "Some combinations of values were declared impossible. The last column is the number of released records "
            "that have one of them; it should be 0."
        ),
        table(("attributes", "impossible combinations", "released records"), rows),
    )
