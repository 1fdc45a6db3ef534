"""`load`: a model of any kind from the file that its `save` wrote. archive.py describes the files."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.errors import PgmestError
from pgmest.inference.support.support import Support
from pgmest.measurements.known_errors import KnownErrors
from pgmest.models.archive import (
    APPROXIMATE_MODEL,
    BAYESIAN_NETWORK,
    FACTS,
    KNOWN,
    LEAST_SQUARES_MODEL,
    MEASURED_MODEL,
    MODEL,
    SUPPORT_MODEL,
    VIEW_MODEL,
    Header,
    Kind,
    Unreadable,
    number,
    opened_archive,
    read_array,
)
from pgmest.models.base import ModelBase
from pgmest.models.bayesian_network import BayesianNetwork
from pgmest.models.exact import Model
from pgmest.models.least_squares import LeastSquaresModel, LeastSquaresParts
from pgmest.models.measured import base_cells, read_bounds, read_facts, read_known, read_measured
from pgmest.models.region import ApproximateModel
from pgmest.models.support import SupportModel
from pgmest.models.view import ViewModel
from pgmest.sampling.facts import Facts
from pgmest.solvers.report import ApproximateReport
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain
from pgmest.tables.factor import Factor


def load(path: str | Path) -> Any:
    """Read a model of any kind from the file that its `save` wrote; it comes back as the same kind.

    Returns:
        a `Model`, `SupportModel`, `ApproximateModel`, `BayesianNetwork`, `ViewModel` or `LeastSquaresModel`.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    with opened_archive(path, "a model file", "model.save(...)") as archive:
        return _read(archive)


def _read(archive: zipfile.ZipFile) -> ModelBase:
    members = sorted(archive.namelist())
    for kind, read in READERS:
        if [name for name in members if name not in (FACTS, KNOWN)] == sorted(kind.members):
            try:
                header = Header.read(archive, kind)
                model, about = read(archive, header), header.fields.get("about")
                if isinstance(about, dict):
                    model.describe(**about)
                if KNOWN in members:
                    model.knows(read_known(header, lambda rows: read_array(archive, KNOWN, np.float64, rows)))
                reason = header.fields.get("no_error_bars")
                if isinstance(reason, str):
                    model.without_error_bars(reason)
                return model
            except PgmestError as error:
                raise Unreadable(str(error).rstrip(".")) from None
    raise Unreadable(f"its members are not {' and '.join(MODEL.members)}")


def _model(archive: zipfile.ZipFile, header: Header) -> Model:
    potentials = read_array(archive, "potentials.npy", np.float64, header.layout.cells)
    kept = CliqueVector.of(header.layout, potentials)
    return Model(kept, header.total, header.report, header.total_stddev, facts=_facts(archive, header))


def _measured_model(archive: zipfile.ZipFile, header: Header) -> Model:
    potentials = read_array(archive, "potentials.npy", np.float64, header.layout.cells)
    base = read_array(archive, "base.npy", np.float64, base_cells(header))
    kept = CliqueVector.of(header.layout, potentials)
    measurements, refit = read_measured(header, base, lambda rows: read_array(archive, "answers.npy", np.float64, rows))
    facts, bounds = _facts(archive, header), read_bounds(header)
    model = Model(kept, header.total, header.report, header.total_stddev, measurements, refit.plan, refit, facts=facts)
    return model.knows(KnownErrors(measurements, model.total_stddev or 0.0, bounds=bounds)) if bounds else model


def _support_model(archive: zipfile.ZipFile, header: Header) -> SupportModel:
    layout, records = header.layout, header.fields.get("records")
    if not isinstance(records, int) or records < 1:
        raise Unreadable(f"its number of records is {records!r}")
    kind = code_type(max(layout.domain.shape, default=1))
    potentials = read_array(archive, "potentials.npy", np.float64, layout.cells)
    codes = read_array(archive, "codes.npy", kind, records * len(layout.domain))
    weights = read_array(archive, "weights.npy", np.float64, records)
    support = Support(Dataset.from_codes(list(codes.reshape(len(layout.domain), records)), layout.domain, weights))
    kept, facts = CliqueVector.of(layout, potentials), _facts(archive, header)
    return SupportModel(support, kept, header.total, header.report, header.total_stddev, facts=facts)


def _approximate_model(archive: zipfile.ZipFile, header: Header) -> ApproximateModel:
    report = header.report
    if not isinstance(report, ApproximateReport):
        raise Unreadable("it has no report")
    tables = _counts(read_array(archive, "marginals.npy", np.float64, header.layout.cells))
    noise = _positive(header, "noise")
    marginals = CliqueVector.of(header.layout, tables)
    return ApproximateModel(marginals, header.total, report, header.total_stddev, noise=noise)


def _bayesian_network(archive: zipfile.ZipFile, header: Header) -> BayesianNetwork:
    layout = header.layout
    tables = CliqueVector.of(layout, _finite(read_array(archive, "conditionals.npy", np.float64, layout.cells)))
    if () in tables:
        raise Unreadable("it has a table of no attribute")
    return BayesianNetwork(layout.domain, {clique[-1]: table for clique, table in tables.items()}, header.total)


def _view_model(archive: zipfile.ZipFile, header: Header) -> ViewModel:
    domain = header.layout.domain
    cliques = _cliques(header.fields.get("views"), domain)
    tables = _split(_counts(read_array(archive, "tables.npy", np.float64, _cells(domain, cliques))), domain, cliques)
    views = [Factor.owning(domain.project(clique), table) for clique, table in zip(cliques, tables, strict=True)]
    return ViewModel(domain, tuple(views), header.total, str(header.fields.get("reconstruction")))


def _least_squares_model(archive: zipfile.ZipFile, header: Header) -> LeastSquaresModel:
    domain, groups = header.layout.domain, header.fields.get("groups")
    if not isinstance(groups, list) or not groups or not all(isinstance(group, dict) for group in groups):
        raise Unreadable("its groups are wrong")
    parts = [_cliques(group.get("parts"), domain) for group in groups]
    along = [_cliques([[name] for name in group.get("directions") or ()], domain) for group in groups]
    every_part, every_direction = list(chain(*parts)), list(chain(*along))
    order = {name: place for place, name in enumerate(domain)}
    if any(list(part) != sorted(part, key=order.__getitem__) for part in every_part):
        raise Unreadable("its parts are not in domain order")
    tables = _finite(read_array(archive, "tables.npy", np.float64, _cells(domain, every_part)))
    directions = _finite(read_array(archive, "directions.npy", np.float64, _cells(domain, every_direction)))
    part_tables, vectors = _split(tables, domain, every_part), _split(directions, domain, every_direction)
    made = []
    for group, sets, names in zip(groups, parts, along, strict=True):
        measured, found = _cliques(group.get("cliques"), domain), {name: next(vectors) for (name,) in names}
        if not measured or any(vector.sum() <= 0 for vector in found.values()):
            raise Unreadable("its cliques or directions are wrong")
        made.append(LeastSquaresParts(domain, tuple(measured), {part: next(part_tables) for part in sets}, found))
    return LeastSquaresModel(tuple(made))


def _facts(archive: zipfile.ZipFile, header: Header) -> tuple[Facts, ...]:
    """Return the exact answers in a file; none without the member."""
    if FACTS not in archive.namelist():
        return ()
    return read_facts(header, lambda numbers: read_array(archive, FACTS, np.float64, numbers))


READERS: Sequence[tuple[Kind, Callable[[zipfile.ZipFile, Header], ModelBase]]] = (
    (MODEL, _model),
    (MEASURED_MODEL, _measured_model),
    (SUPPORT_MODEL, _support_model),
    (APPROXIMATE_MODEL, _approximate_model),
    (BAYESIAN_NETWORK, _bayesian_network),
    (VIEW_MODEL, _view_model),
    (LEAST_SQUARES_MODEL, _least_squares_model),
)
"""The reader of each kind of file; `load` recognizes a kind by its members, which differ between kinds."""


def _cliques(value: Any, domain: Domain) -> list[Clique]:
    """Return sets of attributes in a header."""
    lists = isinstance(value, list) and all(isinstance(clique, list) for clique in value)
    if not lists or not all(isinstance(name, str) for clique in value for name in clique):
        raise Unreadable("its sets of attributes are wrong")
    return [domain.clique(clique) for clique in value]


def _cells(domain: Domain, cliques: Sequence[Clique]) -> int:
    return sum(domain.size(clique) for clique in cliques)


def _split(values: np.ndarray, domain: Domain, cliques: Sequence[Clique]) -> Iterator[np.ndarray]:
    """Yield the tables over cliques that lie one after the other."""
    sizes = [domain.size(clique) for clique in cliques]
    ends = np.cumsum([0, *sizes], dtype=np.int64).tolist()
    for clique, (start, stop) in zip(cliques, pairwise(ends), strict=True):
        yield values[start:stop].reshape([domain[name] for name in clique])


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise Unreadable("it holds NaN or infinite numbers")
    return values


def _counts(values: np.ndarray) -> np.ndarray:
    if not (_finite(values) >= 0).all():
        raise Unreadable("it holds negative counts")
    return values


def _positive(header: Header, name: str) -> float:
    value = number(header.fields, name)
    if not 0 < value < math.inf:
        raise Unreadable(f"its {name} is {value!r}, not a positive number")
    return value
