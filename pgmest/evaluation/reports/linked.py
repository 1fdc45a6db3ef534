"""The report on linked tables, such as households with persons, for their owner or for the public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pgmest._base.files import write_atomically
from pgmest._base.html import html_text
from pgmest._base.version import __version__
from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset
from pgmest.data.linked_names import number_of
from pgmest.errors import DataError, plural
from pgmest.evaluation.linked_errors import CLASSES, LinkedErrors, linked_errors
from pgmest.evaluation.reports.levels import levels_section
from pgmest.evaluation.reports.linked_units import whole_units
from pgmest.evaluation.reports.margins import TableErrors
from pgmest.evaluation.reports.page import notice, page, paragraph, picture, pictures, section, table
from pgmest.evaluation.reports.release import cost, promise, schema_text
from pgmest.evaluation.reports.report import PRIVATE_PAGE, PUBLIC_NOTICE, PUBLIC_PAGE
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.plots.style import text_drawn_by_reader
from pgmest.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    from pgmest.schema import LinkedSchema
    from pgmest.schema.linked.check import LinkedCheck

SHOWN, DRAWN = 20, 24
"""The most errors that are listed, and the most attributes of a table that are drawn."""

PRIVATE_NOTICE = (
    "For the data owner's eyes only. This page compares the release with the private tables, without noise. The "
    "numbers and pictures below are not protected: do not publish them. Synthesizer.report makes a page that may be "
    "published."
)
MEANING = (
    "An error is the share of the rows that would have to be moved to make two tables equal (total variation "
    "distance): 0 is perfect, 1 has nothing in common. Each number is the mean over what its class compares."
)


@text_drawn_by_reader()
def linked_report(
    result: Any,
    schema: LinkedSchema,
    real: LinkedDataset | None = None,
    check: LinkedCheck | None = None,
    *,
    out: str | Path | None = None,
    title: str = "Report on a release of linked tables",
    seed: int = 0,
) -> Path:
    """Write a page about synthetic linked tables, and return its path.

    Args:
        result: a mechanism's result on linked tables, or a LinkedDataset of synthetic records.
        schema: the schema of the tables.
        real: the private tables, as the schema encoded them: the page is then private, too. None for a public page.
        check: the check of the private tables, for a private page.
        out: the file; by default `report.html`, or `PRIVATE-report.html` with `real`.
        title: the heading.
        seed: the seed of the records that are drawn from the result.

    Raises:
        DataError: `real` has no rows, or other tables.
        OptionalDependencyError: matplotlib is not installed.
        FileFormatError: the file cannot be written.
    """
    if real is None and check is not None:
        raise DataError("check= is of the private tables, so it needs real=, which makes the page private.")
    made = result if isinstance(result, LinkedDataset) else result.sample(seed=seed)
    labels = labels_of(schema)
    stated = hasattr(result, "promise") and bool(ledgers_of(result))
    errors = _errors_of(result, made)
    parts = [*([promise(statement_of(result, schema), errors)] if stated else []), _released(made, schema)]
    parts += [one.section(f"How far off a count of {name} may be") for name, one in errors.items()]
    parts += [whole_units(result, made, schema)] if isinstance(result, LinkedModel) else []
    parts += _levels(result, made, real)
    if real is None:
        parts += [_drawn(made, name, labels[name]) for name in made.order]
    else:
        differences = linked_errors(real, made, labels)
        parts += [_checked(check)] if check is not None else []
        parts += [_errors(differences), *(_compared(real, made, name, labels[name]) for name in made.order)]
    warning = notice(PUBLIC_NOTICE if real is None else PRIVATE_NOTICE)
    path = Path(out if out is not None else PUBLIC_PAGE if real is None else PRIVATE_PAGE)
    write_atomically(
        path, page(title, warning, *parts, schema_text(schema), *_costs(result), paragraph("Made with pgmest."))
    )
    return path


def labels_of(schema: LinkedSchema) -> dict[str, dict[str, list[str]]]:
    """Return the labels of the codes of each attribute of each table."""
    parts = schema.parts.items()
    return {name: {column: part.schema.labels(column) for column in part.schema.domain} for name, part in parts}


def statement_of(result: Any, schema: LinkedSchema) -> PrivacyStatement:
    """Return the privacy statement of a release of linked tables.

    Args:
        result: a mechanism's result on linked tables, with its `mechanism`, `promise` and `ledger`.
        schema: the schema of the tables.
    """
    mechanism, promised = result.mechanism, result.promise
    epsilon, delta = (None, None) if promised is None else (promised.epsilon, promised.delta)
    insecure = any(ledger.insecure for ledger in ledgers_of(result).values())
    return PrivacyStatement(
        type(mechanism).__name__,
        epsilon,
        delta,
        mechanism.rho if promised is None else None,
        1,
        False,
        insecure,
        schema.drafted,
        Path(schema.source).name,
        date.today().isoformat(),
        __version__,
        protected=schema.protection,
        standing=next((ledger.standing for ledger in ledgers_of(result).values()), None),
        limits=getattr(result, "limits", ""),
    )


def ledgers_of(result: Any) -> dict[str, Any]:
    """Return the ledgers of a result by the table that each is about; of a single one, by an empty name."""
    ledger = getattr(result, "ledger", None)
    if isinstance(ledger, Mapping):
        return dict(ledger)
    return {} if ledger is None else {"": ledger}


def _costs(result: Any) -> Iterator[str]:
    """Yield the sections on the ledgers."""
    ledgers = ledgers_of(result)
    if len(ledgers) > 1:
        yield paragraph(f"There was a run for each of {', '.join(ledgers)}, whose costs add up to what was promised.")
    yield from map(cost, ledgers.values() or [None])


def _released(made: LinkedDataset, schema: LinkedSchema) -> str:
    """Return the section on the tables, their attributes, and the rules within parents."""
    rows = []
    for name, part in schema.parts.items():
        attributes = ", ".join(f"{column} ({size:,})" for column, size in part.schema.domain.items())
        above = "-" if part.parent is None else f"{part.parent}, at most {part.at_most}"
        rows.append((name, above, f"{made.tables[name].rows:,}", attributes or "none"))
    parts = [
        paragraph(f"This release is {plural(len(schema.parts), 'linked table')}, drawn as a whole: their keys join."),
        table(
            ("table", "hangs on", "records", "attributes, with their numbers of values"),
            rows,
            ("hangs on", "attributes, with their numbers of values"),
        ),
    ]
    if schema.rules:
        broken = [(str(rule), f"{int(rule.broken(made).sum()):,}") for rule in schema.rules]
        parts += [
            paragraph("What the schema states to hold within each parent, and how many released parents break it:"),
            table(("rule", "broken"), broken),
        ]
    return section("What was released", *parts)


def _errors_of(result: Any, made: LinkedDataset) -> dict[str, TableErrors]:
    """Return the likely errors of the counts of each table, if the result has intervals."""
    models = {name: result.model_of(name) for name in made.order} if hasattr(result, "model_of") else {}
    return {
        name: TableErrors.of(SimpleNamespace(model=model, measurements=model.known_errors.measurements))
        for name, model in models.items()
    }


def _levels(result: Any, made: LinkedDataset, real: LinkedDataset | None) -> Iterator[str]:
    """Yield the sections on the hierarchies of each table: errors to expect or, for the owner, those that were made."""
    for name in made.order:
        data, heading = made.tables[name].dataset, f"Levels of areas and codes of {name}"
        trees = data.domain.hierarchies
        if real is not None or not hasattr(result, "model_of"):
            true = None if real is None else real.tables[name].dataset
            yield levels_section(data, data.domain, true, heading)
            continue
        model = result.model_of(name)
        source = SimpleNamespace(
            model=model, measurements=model.known_errors.measurements, invariants=(), project=model.project
        )
        domain = model.domain.project([f"{name}.{column}" for column in trees])
        yield levels_section(cast(Any, source), domain, None, heading)


def _checked(check: LinkedCheck) -> str:
    return section("How the schema fits the raw tables", html_text(check))


def _errors(errors: LinkedErrors) -> str:
    """Return the section on the errors by class, and the largest ones."""
    names = list(errors.errors)
    summary = errors.summary()
    rows = [
        (
            kind.replace("_", " "),
            *(f"{summary[name][kind]:.4f}" if kind in summary[name] else "-" for name in names),
            what,
        )
        for kind, what in CLASSES.items()
        if any(kind in found for found in summary.values())
    ]
    worst = [(f"{error:.4f}", name, kind.replace("_", " "), what) for error, name, kind, what in errors.worst(SHOWN)]
    return section(
        "How far the release is from the private tables",
        paragraph(MEANING),
        table(("class", *names, "what is compared"), rows, ("what is compared",)),
        paragraph("The largest errors:"),
        table(("error", "table", "class", "of"), worst, ("table", "class", "of")),
    )


def with_sizes(linked: LinkedDataset, name: str) -> Dataset:
    """Return the records of a table with attributes for the numbers of rows that hang on each."""
    data = linked.tables[name].dataset
    columns, sizes = list(data.columns), dict(data.domain)
    for child in linked.children(name):
        columns.append(linked.sizes(child))
        sizes[number_of(child)] = (linked.tables[child].at_most or 0) + 1
    return Dataset.from_codes(columns, sizes) if columns else data


def _drawn(made: LinkedDataset, name: str, labels: Mapping[str, list[str]]) -> str:
    from pgmest.plots import draw_marginals

    data = with_sizes(made, name)
    drawn = [
        (draw_marginals(data, [column], labels=labels, across=1), f"Released counts of each value of {column}")
        for column in list(data.domain)[:DRAWN]
    ]
    text = "The number of records with each value, as released. These are estimates, not the true numbers."
    return section(f"What the release says about {name}", paragraph(text), pictures(drawn)) if drawn else ""


def _compared(real: LinkedDataset, made: LinkedDataset, name: str, labels: Mapping[str, list[str]]) -> str:
    from pgmest.plots import compare_marginals

    mine, theirs = with_sizes(real, name), with_sizes(made, name)
    columns = [(column,) for column in list(mine.domain)[:DRAWN]]
    if not columns:
        return ""
    text = f"The area is true, the line is released ({mine.records:,} and {theirs.records:,} records)."
    drawn = compare_marginals(mine, theirs, columns, labels=labels)
    return section(
        f"{name}: one attribute at a time", paragraph(text), picture(drawn, f"True and released counts of {name}")
    )
