"""The npz file of linked tables with the noisy answers behind them: a `LinkedModel` reads back bit for bit.

    header.npy   UTF-8 bytes of a JSON object: format, version, about, the tables and the runs
    codes.npy    the codes of each table, then those of parents and children of each run, attribute after attribute, in
                 the smallest unsigned type for all of them
    rows.npy     the parent row of each row of each table but the root, int64
    answers.npy  for each run the noisy tables of parents with their standard deviations, the lengths and the numbers,
                 float64

As for the files of models (`pgmest.models.archive`), a file from an untrusted source can be wrong, but does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.linked import LinkedTable
from pgmest.errors import ArgumentError
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.models.archive import LINKED_MODEL, stored_hierarchies, write_archive
from pgmest.models.measurement_entries import answers_of, described_measurements
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.mechanisms.linked.linked_model import LinkedModel


def save(model: LinkedModel, path: str | Path) -> None:
    """Write a model to a file; see `LinkedModel.save`."""
    tables, runs = model.model.tables, model.runs
    answers: list[np.ndarray] = []
    header = {
        "format": LINKED_MODEL.format,
        "version": LINKED_MODEL.version,
        "about": model.about,
        "tables": [_table_fields(name, table) for name, table in tables.items()],
        "runs": [{"child": child, **_run_fields(run, answers)} for child, run in runs.items()],
    }
    columns = [np.asarray(column) for table in tables.values() for column in table.dataset.columns]
    columns += [column for run in runs.values() for part in _codes(run) for column in part.T]
    kind = code_type(max([1, *_sizes(tables.values(), runs.values())]))
    rows = [model.model.link(name)[1] for name in model.model.order[1:]]
    write_archive(
        path,
        header,
        codes=np.concatenate([np.empty(0, dtype=kind), *(column.astype(kind) for column in columns)]),
        rows=np.concatenate([np.empty(0, dtype=np.int64), *rows]),
        answers=np.concatenate([np.empty(0), *map(np.ravel, answers)]),
    )


def _table_fields(name: str, table: LinkedTable) -> dict[str, Any]:
    return {
        "name": name,
        "rows": table.rows,
        "parent": table.parent,
        "at_most": table.at_most,
        "ordered": table.ordered,
        "order_by": table.order_by,
        **_domain_fields(table.domain),
    }


def _domain_fields(domain: Domain) -> dict[str, Any]:
    return {"domain": list(domain.items()), **stored_hierarchies(domain)}


def _run_fields(run: FamilyModel, answers: list[np.ndarray]) -> dict[str, Any]:
    """Return the header's entries of a run, and append its answers to others."""
    layout, above = run.layout, described_measurements(run.above)
    if isinstance(above, str):
        raise ArgumentError(f"the linked tables cannot be saved, as {above}.")
    answers += [answers_of(run.above)] if run.above else []
    answers += [answer.values for answer in (*run.lengths, *run.numbers)]
    return {
        "layout": {
            "parent": _domain_fields(layout.parent),
            "child": _domain_fields(layout.child),
            "names": list(layout.names),
            "at_most": layout.at_most,
            "ordered": layout.ordered,
            "rising": layout.rising,
            "counted": list(layout.counted),
        },
        "families": len(run.families.parents),
        "children": len(run.families.children),
        "total": float(run.total),
        "total_stddev": float(run.total_stddev),
        "above": above,
        "lengths": [
            {
                "clique": list(one.clique),
                "groups": [labels.tolist() for labels in one.groups],
                "stddev": float(one.stddev),
                "averaged": bool(one.averaged),
                "cut": float(one.cut),
            }
            for one in run.lengths
        ],
        "numbers": [{"name": one.name, "stddev": float(one.stddev), "cut": float(one.cut)} for one in run.numbers],
        **({"scored": [[list(clique), float(most)] for clique, most in run.scored.items()]} if run.scored else {}),
    }


def _codes(run: FamilyModel) -> tuple[np.ndarray, np.ndarray]:
    return run.families.parents, run.families.children


def _sizes(tables: Any, runs: Any) -> Iterator[int]:
    """Yield the numbers of codes of all attributes."""
    for domain in (*(table.domain for table in tables), *(run.layout.domain for run in runs)):
        yield from domain.shape
