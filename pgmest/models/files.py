"""The npz file of a model of any kind: a JSON tree with arrays (`pgmest._base.npz`); a model reads back bit for bit.

Each kind of model writes its own entries (`_saved`) and is made of them again (`_of_saved`), with the checks of its
constructor. Besides these, a file has

    format, version, kind              the format of all models, and the name of the class
    domain, hierarchies                the attributes
    total, total_stddev, report        of the model
    about                              the public facts about its origin
    known or no_error_bars             the noisy answers behind it, for intervals; or why there are none

Tables are written as "cliques" and "cells": one table after the other, each row-major, float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from pgmest._base.npz import Unreadable, floats, number, objects, opened_archive, write_archive
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DomainError, count_text
from pgmest.inference.exact.structural_zeros import MOST_CELLS
from pgmest.measurements.files.read import decode_measurements
from pgmest.measurements.files.write import encode_measurement
from pgmest.measurements.known_errors import KnownErrors
from pgmest.measurements.measurement import LARGEST_ANSWER, LinearMeasurement
from pgmest.sampling.facts import Facts
from pgmest.tables.clique_vector import CliqueVector, Layout
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor
from pgmest.tables.hierarchy import Hierarchy

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase

FORMAT, VERSION = "pgmest-model", 1

REMEDY = "Only files written by {} can be read; write it again."
"""The remedy for a damaged file, with the call that writes such files."""

MOST_VALUES = 1 << 24
"""The most values that all attributes of a file together may have beyond the bytes of the file. The marginals of
attributes that no table is about are uniform and are made when they are asked for: 134 MB, where the file may have 700
bytes."""

Kind = TypeVar("Kind", bound="ModelBase")
Tree = Mapping[str, Any]
"""The content of a file: JSON values and arrays. "most_values" is the most values that its attributes may have."""


def save(path: str | Path, model: Any) -> None:
    """Write a model of any kind; a reader sees either the old file or the new one.

    Raises:
        FileFormatError: the file cannot be written. An earlier file is left unchanged.
    """
    reader = next(one for one in type(model).__mro__ if {"_of_saved", "of_saved"} & vars(one).keys())
    head = {"format": FORMAT, "version": VERSION, "kind": reader.__name__, "about": dict(model.about)}
    write_archive(path, head | model.saved())


def load(path: str | Path, kinds: Mapping[str, str]) -> Any:
    """Read a model from the file that `save` wrote.

    Args:
        path: the file.
        kinds: the module of each kind of model, by the name of its class.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    with opened_archive(path, "a model file", REMEDY.format("model.save(...)")) as archive:
        archive.refuse_compressed()
        most = MOST_VALUES + archive.bytes
        header = archive.header(FORMAT, VERSION)
        kind, about = header["kind"], header.pop("about")
        if not isinstance(kind, str) or kind not in kinds:
            raise Unreadable(f"its kind is {kind!r}, and this release reads {', '.join(kinds)}")
        if not isinstance(about, dict):
            raise Unreadable("what it says about itself is wrong")
        model = getattr(import_module(kinds[kind]), kind)
        return model.of_saved(archive.with_arrays(header) | {"about": about, "most_values": most})


def model_tree(model: ModelBase) -> dict[str, Any]:
    """Return the entries of a model that all kinds have in common, with those of its kind."""
    common = {
        **domain_tree(model.domain),
        "total": model.total,
        "total_stddev": model.total_stddev,
        "report": None if model.report is None else model.report.published().to_json(),
    }
    own = model._saved()
    reason = {"no_error_bars": model.no_error_bars} if model.no_error_bars else {}
    return common | ({} if "estimate" in own else known_tree(model.known_errors) or reason) | own


def model_of_tree(kind: type[Kind], tree: Tree) -> Kind:
    """Return the model of a kind that `model_tree` described.

    Raises:
        Unreadable, KeyError, ...: the description is wrong.
    """
    domain = read_domain(tree, tree["most_values"])
    spread, report = tree["total_stddev"], tree["report"]
    checked = {
        "total": number(tree, "total"),
        "total_stddev": None if spread is None else number(tree, "total_stddev", 0),
        "report": None if report is None else kind.saved_report.from_json(report),
    }
    model = kind._of_saved(domain, {**tree, **checked})
    model.describe(**tree["about"])
    if "known" in tree:
        model.knows(read_known(domain, tree["known"]))
    if isinstance(tree.get("no_error_bars"), str):
        model.without_error_bars(tree["no_error_bars"])
    return model


def domain_tree(domain: Domain) -> dict[str, Any]:
    """Describe attributes and their hierarchies."""
    hierarchies = {"hierarchies": [one.to_json() for one in domain.hierarchies.values()]} if domain.hierarchies else {}
    return {"domain": list(domain.items()), **hierarchies}


def read_domain(tree: Tree, most: float) -> Domain:
    """Return the attributes that `domain_tree` described, with at most this many values.

    Raises:
        Unreadable: the description is wrong.
    """
    try:
        domain = Domain((name, size) for name, size in tree["domain"])
        domain = domain.with_hierarchies(*map(Hierarchy.from_json, tree.get("hierarchies", ())))
    except (DomainError, ArgumentError, TypeError, ValueError) as error:
        raise Unreadable(f"its domain or cliques are wrong ({error})") from None
    values = sum(domain.shape)
    if values > most:
        raise Unreadable(
            f"its attributes have {values:,} values, more than {most:,}: a small file would make large tables"
        )
    return domain


def tables_tree(tables: Sequence[Factor]) -> dict[str, Any]:
    """Describe tables."""
    cells = np.concatenate([np.zeros(0), *(table.datavector() for table in tables)])
    return {"cliques": [list(table.domain.attributes) for table in tables], "cells": cells}


def read_tables(domain: Domain, tree: Tree) -> list[Factor]:
    """Return the tables that `tables_tree` described, which hold finite numbers.

    Raises:
        Unreadable: the description is wrong.
    """
    cells, cliques = floats(tree["cells"]), read_cliques(domain, tree["cliques"])
    sizes = [domain.size(clique) for clique in cliques]
    if sum(sizes) != len(cells) or not np.isfinite(cells).all():
        raise Unreadable(f"its tables need {sum(sizes):,} finite numbers, and it has {len(cells):,}, or some are not")
    ends = pairwise(np.cumsum([0, *sizes]).tolist())
    return [
        Factor.owning(domain.project(clique), cells[start:stop].reshape([domain[name] for name in clique]))
        for clique, (start, stop) in zip(cliques, ends, strict=True)
    ]


def read_cliques(domain: Domain, cliques: Any) -> list[Clique]:
    """Return sets of attributes.

    Raises:
        Unreadable: the value is something else.
    """
    lists = isinstance(cliques, list) and all(isinstance(clique, list) for clique in cliques)
    if not lists or not all(isinstance(name, str) for clique in cliques for name in clique):
        raise Unreadable("its domain or cliques are wrong: they are no lists of names")
    return [domain.clique(clique) for clique in cliques]


def vector_tree(vector: CliqueVector) -> dict[str, Any]:
    """Describe a clique vector."""
    return {"cliques": [list(clique) for clique in vector.cliques], "cells": vector.flat}


def read_vector(domain: Domain, tree: Tree) -> CliqueVector:
    """Return the clique vector that `vector_tree` described.

    Raises:
        Unreadable, ShapeError: the description is wrong.
    """
    cliques = read_cliques(domain, tree["cliques"])
    layout = Layout.of(domain, cliques)
    if len(layout.cliques) != len(cliques):
        raise Unreadable("it has a clique twice")
    return CliqueVector.of(layout, floats(tree["cells"]))


def dataset_tree(columns: Iterable[np.ndarray], rows: int, domain: Domain) -> np.ndarray:
    """Return columns of codes as one array of the smallest type for all of them, shape (attributes, rows)."""
    kind = code_type(max(domain.shape, default=1))
    return np.array([np.asarray(column) for column in columns], dtype=kind).reshape(len(domain), rows)


def read_dataset(domain: Domain, codes: Any, weights: np.ndarray | None = None) -> Dataset:
    """Return the records whose codes `dataset_tree` described.

    Raises:
        Unreadable, DataError: they are no codes of these attributes.
    """
    if not isinstance(codes, np.ndarray) or codes.ndim != 2 or len(codes) != len(domain):
        raise Unreadable("its codes have not one row for each attribute")
    return Dataset.from_codes(list(codes) if len(domain) else codes.T, domain, weights)


def facts_tree(facts: Sequence[Facts]) -> list[dict[str, Any]]:
    """Describe the exact answers that records hold."""
    entries = []
    for one in facts:
        cells = one.matrix.tocoo()
        weights = {"row": cells.row, "column": cells.col, "weight": cells.data.astype(np.float64)}
        entries.append({"clique": list(one.clique), "values": one.values, **weights, "least": one.least})
    return entries


def read_facts(domain: Domain, tree: Tree) -> tuple[Facts, ...]:
    """Return the exact answers that `facts_tree` described.

    Raises:
        Unreadable, ValueError, TypeError: the description is wrong.
    """
    facts = []
    for entry in objects(tree, "facts"):
        (clique,) = read_cliques(domain, [entry["clique"]])
        values, weights = floats(entry["values"]), floats(entry["weight"])
        row, column = (entry[name].astype(np.int64, casting="same_kind") for name in ("row", "column"))
        if domain.size(clique) > tree["most_values"]:
            raise Unreadable(
                f"its exact answers are about {count_text(domain.size(clique))} cells, more than it has tables for"
            )
        if not (np.isfinite(values).all() and np.isfinite(weights).all()):
            raise Unreadable("its exact answers are not finite")
        matrix = csr_array((weights, (row, column)), shape=(len(values), domain.size(clique)))
        facts.append(Facts(clique, matrix, values, entry["least"] is True))
    return tuple(facts)


def measurements_tree(measurements: Iterable[LinearMeasurement]) -> list[dict[str, Any]] | str:
    """Describe measurements; or return why a file cannot keep them."""
    try:
        return [encode_measurement(measurement) for measurement in measurements]
    except ArgumentError as error:
        return f"a measured query cannot be written to a file ({str(error).rstrip('.')})"


def known_tree(known: KnownErrors | None) -> dict[str, Any]:
    """Return the entry that keeps the noisy answers behind a model, or why a file cannot; empty without any."""
    if known is None or not known.measurements:
        return {}
    described = measurements_tree(known.measurements)
    if isinstance(described, str):
        return {"no_error_bars": described}
    fields = {
        "measurements": described,
        "total_stddev": float(known.total_stddev),
        "dependence": distances_tree(known.dependence),
        "records": None if known.records == np.inf else float(known.records),
        "relative": list(known.relative),
        "impossible": [[list(clique), np.asarray(cells)] for clique, cells in known.impossible.items()],
    }
    return {"known": fields}


def read_known(domain: Domain, tree: Tree) -> KnownErrors:
    """Return the noisy answers that `known_tree` described.

    Raises:
        Unreadable, KeyError, ...: the description is wrong.
    """
    one, several = (number({"relative": share}, "relative", 0) for share in tree["relative"])
    impossible = {}
    for names, cells in tree["impossible"]:
        (clique,) = read_cliques(domain, [names])
        shape = tuple(domain[name] for name in clique)
        if not isinstance(cells, np.ndarray) or cells.dtype != bool or cells.shape != shape or cells.size > MOST_CELLS:
            raise Unreadable(f"its impossible cells of {clique} are no table of true and false")
        impossible[clique] = cells
    return KnownErrors(
        decode_measurements(objects(tree, "measurements"), domain),
        number(tree, "total_stddev", 0),
        read_distances(domain, tree["dependence"]),
        math.inf if tree["records"] is None else number(tree, "records", np.nextafter(0, 1)),
        relative=(one, several),
        impossible=impossible,
    )


def distances_tree(distances: Mapping[Clique, float]) -> list[list[Any]]:
    """Describe l1 distances of marginals."""
    return [[list(clique), float(distance)] for clique, distance in distances.items()]


def read_distances(domain: Domain, pairs: Any) -> dict[Clique, float]:
    """Return the l1 distances of marginals that `distances_tree` described.

    Raises:
        Unreadable: they are not pairs of a clique and a number of at least 0.
    """
    if not isinstance(pairs, list):
        raise Unreadable("its distances are no list")
    cliques = read_cliques(domain, [names for names, _ in pairs])
    found = (number({"distance": most}, "distance", 0, LARGEST_ANSWER) for _, most in pairs)
    return dict(zip(cliques, found, strict=True))
