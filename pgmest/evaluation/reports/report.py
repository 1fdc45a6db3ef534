"""The report: one HTML page about a release, for the owner of the data or for the public."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.files import write_atomically
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError
from pgmest.evaluation.reports.comparison import one_way, raw_table, two_way, workload_section
from pgmest.evaluation.reports.kept import kept_dependences
from pgmest.evaluation.reports.levels import levels_section
from pgmest.evaluation.reports.margins import TableErrors
from pgmest.evaluation.reports.page import notice, page, paragraph
from pgmest.evaluation.reports.release import (
    agreement_with_answers,
    cost,
    expected_errors,
    full_names,
    impossible_records,
    promise,
    released_dependences,
    released_marginals,
    schema_text,
    what_was_released,
)
from pgmest.inference.exact.structural_zeros import StructuralZeros
from pgmest.models.exact import Model
from pgmest.plots.style import text_drawn_by_reader
from pgmest.privacy.statement import PrivacyStatement
from pgmest.tables.domain import Domain
from pgmest.workloads import Projectable, Workload, all_kway, as_workload, random_kway

if TYPE_CHECKING:
    from pgmest.schema import Schema
    from pgmest.schema.check import TableCheck

PUBLIC_PAGE, PRIVATE_PAGE = "report.html", "PRIVATE-report.html"

PAIRS = 2000
"""The most pairs that are compared; of more, a random selection is compared."""

PAIR_CELLS = 1 << 20
"""Pairs with more cells than this are not compared."""

PRIVATE_NOTICE = (
    "For the data owner's eyes only. This page compares the release with the private data, without noise. The numbers "
    "and pictures below are not protected: do not publish them. "
    "The page of report(None, ...), or of --report, may be published."
)
PUBLIC_NOTICE = (
    "This page was made from the release alone, without access to the private data: it reveals nothing that the "
    "release does not, and is as private as the release."
)


@text_drawn_by_reader()
def report(
    real: Dataset | None,
    synthetic: Projectable,
    *,
    out: str | Path | None = None,
    workload: Workload | Iterable[Iterable[str] | str] | None = None,
    ledger: Any = None,
    structural_zeros: StructuralZeros | None = None,
    schema: Schema | None = None,
    check: TableCheck | None = None,
    title: str = "Report on a synthetic data release",
) -> Path:
    """Write a self-contained HTML page with pictures on the accuracy of a release, in words for non-specialists.

    **With real records the page is private**: it compares without noise, says so at its top, and is for the data owner
    only. With `real=None` it is made from the release alone and may be published with it.

    With real records, the page has the release, one-way and two-way marginals (worst, best, heat maps), the workload,
    and impossible records. Without them, it has the release, the fit of the model to its noisy
    answers, the one-way marginals, and impossible records. Both have the levels of hierarchies.

    Args:
        real: the private records, or None for the page that may be published.
        synthetic: synthetic records, a model, or a mechanism's result.
        out: the file, which is written as a whole or not at all. The default is `PUBLIC_PAGE` without real records and
            `PRIVATE_PAGE` with them, so that the two are not confused.
        workload: the queries that matter; all pairs by default.
        ledger: the ledger, of which `str` is a table; by default that of the result, if it has one.
        structural_zeros: combinations that cannot occur, as for `pg.estimate`; by default the schema's.
        schema: the schema, whose labels then replace codes on the page and in pictures.
        check: with real records, the fit of the schema to the raw table (`Schema.check`), with which the page begins.
        title: the title of the page.

    Returns:
        the path written.

    Raises:
        OptionalDependencyError: matplotlib is not installed.
        ArgumentError: `synthetic` has no marginals or domain, or `real` is not a Dataset.
        DomainError: the domains differ, or the schema's does.
        FileFormatError: the file cannot be written.
    """
    domain = _checked_domain(real, synthetic, check)
    labels = _labels(schema, domain)
    domain = domain if schema is None else domain.with_hierarchies(*schema.domain.hierarchies.values())
    paid = getattr(synthetic, "ledger", None) if ledger is None else ledger
    statement = _statement(synthetic, schema)
    parts = [] if real is None or schema is None else [raw_table(check)]
    errors = TableErrors.of(synthetic)
    if statement is not None:
        parts.append(promise(statement, {"": errors}))
    if real is None:
        widths = {} if schema is None else bin_widths(schema)
        parts += [released_marginals(synthetic, domain, labels, widths), released_dependences(synthetic, domain)]
    parts.append(errors.section() or expected_errors(synthetic, float(synthetic.project(()))))
    parts.append(kept_dependences(synthetic))
    parts.append(what_was_released(synthetic, domain, labels))
    parts.append(levels_section(synthetic, domain, None if real is None else real.select(domain)))
    asked = as_workload(domain, workload, k=2) if workload is not None else None
    if real is not None:
        real, pairs = real.select(domain), _pairs(domain)
        parts.append(one_way(real, synthetic, domain, labels))
        parts += [two_way(real, synthetic, pairs, labels)] if pairs else []
        if asked or pairs:
            parts.append(workload_section(real, synthetic, asked or pairs))
    if structural_zeros is None and schema is not None:
        structural_zeros = schema.structural_zeros or None
    if structural_zeros is not None:
        parts.append(impossible_records(synthetic, domain, structural_zeros))
    model = getattr(synthetic, "model", synthetic)
    if real is None and isinstance(model, Model):
        parts.append(agreement_with_answers(model))
    parts += [full_names(domain), *([] if schema is None else [schema_text(schema)]), cost(paid)]
    warning = notice(PUBLIC_NOTICE if real is None else PRIVATE_NOTICE)
    path = Path(out if out is not None else PUBLIC_PAGE if real is None else PRIVATE_PAGE)
    write_atomically(path, page(title, warning, *parts, paragraph("Made with pgmest.")))
    return path


def _checked_domain(real: Any, synthetic: Any, check: Any = None) -> Domain:
    domain = getattr(synthetic, "domain", None)
    if not isinstance(domain, Domain) or not callable(getattr(synthetic, "project", None)):
        raise ArgumentError.of("synthetic", synthetic, "a Dataset, a Model, or a mechanism's result")
    if real is not None:
        if not isinstance(real, Dataset) or not real.records:
            raise ArgumentError.of("real", real, "a Dataset with at least one record, or None")
        if dict(real.domain) != dict(domain):
            raise DomainError("real= and synthetic= have different attributes; select(...) the same ones.")
    if real is None and check is not None:
        raise ArgumentError.of("check", "of a raw table", "None where real is None: it would make the page private")
    return domain


def bin_widths(schema: Schema) -> dict[str, np.ndarray]:
    """Return the widths of the bins of each attribute that has bins."""
    from pgmest.schema.grid import Grid

    columns = {name: schema.column(name) for name in schema.domain}
    return {name: np.diff([*one.starts, one.high]) for name, one in columns.items() if isinstance(one, Grid)}


def _labels(schema: Schema | None, domain: Domain) -> dict[str, list[str]]:
    if schema is None:
        return {}
    if dict(schema.domain) != dict(domain):
        raise DomainError(f"schema= describes {schema.domain}, but the domain of synthetic= is {domain}.")
    return {name: schema.labels(name) for name in domain}


def _statement(released: Any, schema: Schema | None) -> PrivacyStatement | None:
    """Return the privacy statement of a mechanism's result, None for records and models, which do not have one."""
    mechanism, ledger = getattr(released, "mechanism", None), getattr(released, "ledger", None)
    if mechanism is None or ledger is None:
        return None
    # The page may be published, so it does not have the folder of the schema.
    if schema is None:
        return PrivacyStatement.of(mechanism, ledger)
    person = schema.unit.column if schema.unit else None
    source = Path(schema.source).name
    return PrivacyStatement.of(mechanism, ledger, schema=source, drafted=schema.drafted, person=person)


def _pairs(domain: Domain) -> Workload:
    """Return the pairs to compare: all whose tables are not too large, or a random selection of them."""
    if len(domain) < 2:
        return Workload(())
    if math.comb(len(domain), 2) <= PAIRS:
        return all_kway(domain, 2, PAIR_CELLS)
    return random_kway(domain, 2, PAIRS, 0, PAIR_CELLS)
