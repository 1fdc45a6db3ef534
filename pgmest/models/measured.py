"""The measurements and the recipe of an estimate in a model's file, so that a loaded model has error bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from pgmest.errors import PgmestError, count_text
from pgmest.inference.exact.functional_dependencies import Collapse
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses import make_loss
from pgmest.measurements.known_errors import KnownErrors
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.archive import MEASURED_MODEL, MODEL, MOST_VALUES, Header, Unreadable, number, write_model
from pgmest.models.impossible_cells import read_impossible, run_lengths
from pgmest.models.measurement_entries import answers_of, described_measurements, read_measurements
from pgmest.sampling.facts import Facts
from pgmest.solvers.choose import SOLVERS, choose_solver
from pgmest.solvers.refit import Objective, Refit
from pgmest.solvers.run import Stopping
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Clique, Domain

if TYPE_CHECKING:
    from pgmest.models.base import ModelBase
    from pgmest.models.exact import Model

Parts = tuple[dict[str, Any], np.ndarray, np.ndarray]


def save(model: Model, path: str | Path) -> None:
    """Write a model to a file; see `Model.save`."""
    parts, (fields, facts) = _measured_parts(model), facts_parts(model.held_facts())
    arrays = {"potentials": model.potentials.flat, **facts}
    if isinstance(parts, str):
        known, noisy = known_parts(model)
        write_model(path, MODEL, model, {**known, "no_error_bars": parts, **fields}, **arrays, **noisy)
    else:
        more, base, answers = parts
        more = {**more, **fields, **bounds_parts(model)}
        write_model(path, MEASURED_MODEL, model, more, **arrays, base=base, answers=answers)


def _measured_parts(model: Model) -> Parts | str:
    """Return the header's entries, the base potentials and the answers; or the reason why a file cannot keep them."""
    refit, measurements = model.refit, model.measurements
    if refit is None or not measurements:
        return model.no_error_bars or "its measurements were unknown"
    if not refit.picklable:
        return "it was estimated with the caller's own loss, which a file cannot hold: give estimate(loss=...) a name"
    objective = refit.objective
    method = objective.solver.name
    if SOLVERS.get(method) is not type(objective.solver):
        return (
            "it was estimated with the caller's own solver, which a file cannot hold: give estimate(method=...) a name"
        )
    if refit.plan.layout != model.potentials.layout:
        return "its potentials are on other cliques than the estimate's"
    described = described_measurements(measurements)
    if isinstance(described, str):
        return described
    estimate = {
        "total": objective.total,
        "loss": objective.loss,
        "method": method,
        "tolerance": objective.stopping.tolerance,
        "max_iterations": objective.stopping.max_iterations,
        **({} if refit.collapse is None else {"functions": _collapse_fields(refit.collapse)}),
    }
    return {"estimate": estimate, "measurements": described}, refit.base, answers_of(measurements)


def known_parts(model: ModelBase) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header's entries and the member of a file that keep the noisy answers behind a model.

    Without such answers, or if a file cannot keep them, there is no member; the header then says why.
    """
    known = model.known_errors
    if known is None or not known.measurements:
        return ({"no_error_bars": model.no_error_bars} if model.no_error_bars else {}), {}
    described = described_measurements(known.measurements)
    if isinstance(described, str):
        return {"no_error_bars": described}, {}
    fields = {
        "measurements": described,
        "total_stddev": float(known.total_stddev),
        "dependence": _distances(known.dependence),
        "records": None if known.records == np.inf else float(known.records),
    }
    if any(known.relative):
        fields["relative"] = list(known.relative)
    if known.impossible:
        fields["impossible"] = [[list(clique), run_lengths(cells)] for clique, cells in known.impossible.items()]
    return {"known": fields}, {"known": answers_of(known.measurements)}


def bounds_parts(model: ModelBase) -> dict[str, Any]:
    """Return the header's entry that keeps what paid selections say about unmeasured marginals; empty without any."""
    from pgmest.models.errors.drawn_intervals import error_model_of

    known = model.known_errors
    if known is None or not (known.selections or known.bounds):
        return {}
    return {"bounds": _distances(error_model_of(model).unseen.selected_bounds)}


def read_bounds(header: Header) -> dict[Clique, float]:
    """Read the bounds that `bounds_parts` described; empty without any.

    Raises:
        Unreadable: the description is wrong.
    """
    return _read_distances(header, header.fields.get("bounds", []))


def _distances(distances: Mapping[Clique, float]) -> list[list[Any]]:
    return [[list(clique), float(distance)] for clique, distance in distances.items()]


def _read_distances(header: Header, pairs: Any) -> dict[Clique, float]:
    """Read l1 distances of marginals.

    Raises:
        Unreadable: they are not pairs of a clique and a number of at least 0.
    """
    try:
        found = {header.layout.domain.clique(names): float(distance) for names, distance in pairs}
    except (TypeError, ValueError) as error:
        raise Unreadable(f"its distances of marginals are wrong ({error})") from None
    if not all(0 <= distance < np.inf for distance in found.values()):
        raise Unreadable("its distances of marginals are negative or not numbers")
    return found


def read_known(header: Header, read: Callable[[int], np.ndarray]) -> KnownErrors:
    """Read the noisy answers that `known_parts` described.

    Raises:
        Unreadable: the description is wrong.
    """
    fields = header.fields.get("known")
    if not isinstance(fields, dict):
        raise Unreadable("it does not describe its noisy answers")
    measurements = read_measurements(header.layout.domain, fields.get("measurements"), read)
    try:
        dependence = _read_distances(header, fields["dependence"])
        records = np.inf if fields["records"] is None else float(fields["records"])
        stddev = float(fields["total_stddev"])
        one, several = map(float, fields.get("relative", (0, 0)))
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"what it says about its noisy answers is wrong ({error})") from None
    if not all(0 <= error < np.inf for error in (stddev, one, several)) or not records > 0:
        raise Unreadable("what it says about its noisy answers is negative or not a number")
    impossible = read_impossible(header.layout.domain, fields.get("impossible", []))
    return KnownErrors(measurements, stddev, dependence, records, relative=(one, several), impossible=impossible)


def facts_parts(facts: Sequence[Facts]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header's entry and the member of a file that keep facts; both are empty without facts."""
    if not facts:
        return {}, {}
    entries, parts = [], []
    for one in facts:
        cells = one.matrix.tocoo()
        sizes = {"rows": len(one.values), "entries": len(cells.data)}
        entries.append({"clique": list(one.clique), **sizes, **({"least": True} if one.least else {})})
        parts += [one.values, cells.row, cells.col, cells.data]
    return {"facts": entries}, {"facts": np.concatenate(parts).astype(np.float64)}


def read_facts(header: Header, read: Callable[[int], np.ndarray]) -> tuple[Facts, ...]:
    """Read the facts that `facts_parts` described.

    Raises:
        Unreadable: the description is wrong.
    """
    fields = header.fields.get("facts")
    if not isinstance(fields, list) or not all(isinstance(entry, dict) for entry in fields):
        raise Unreadable("its exact answers are wrong")
    sizes = [(entry.get("rows"), entry.get("entries")) for entry in fields]
    if not all(type(size) is int and size >= 0 for pair in sizes for size in pair):
        raise Unreadable("its exact answers have no number")
    numbers, place, facts = read(sum(rows + 3 * entries for rows, entries in sizes)), 0, []
    for entry, (rows, entries) in zip(fields, sizes, strict=True):
        ends = place + rows + entries * np.arange(4)
        values, coordinates = numbers[place : ends[0]], [numbers[i:j] for i, j in pairwise(ends)]
        place = ends[-1]
        most = max(header.layout.cells, MOST_VALUES)
        least = entry.get("least") is True
        facts.append(_read_fact(header.layout.domain, entry.get("clique"), values, coordinates, most, least))
    return tuple(facts)


def _read_fact(
    domain: Domain, clique: Any, values: np.ndarray, entries: Sequence[np.ndarray], most_cells: int, least: bool
) -> Facts:
    if not isinstance(clique, list) or not all(isinstance(name, str) for name in clique):
        raise Unreadable("its exact answers have no attributes")
    names = domain.clique(clique)
    shape = (len(values), domain.size(names))
    if shape[1] > most_cells:
        raise Unreadable(f"its exact answers are about {count_text(shape[1])} cells, more than it has tables for")
    row, column, data = entries
    for index, end in zip((row, column), shape, strict=True):
        if not ((index >= 0) & (index < end) & (index == np.floor(index))).all():
            raise Unreadable("its exact answers are of other cells than its table has")
    if not (np.isfinite(values).all() and np.isfinite(data).all()):
        raise Unreadable("its exact answers are not finite")
    return Facts(names, csr_array((data, (row.astype(np.int64), column.astype(np.int64))), shape=shape), values, least)


def _collapse_fields(collapse: Collapse) -> dict[str, Any]:
    """Describe, for the header, how cliques were collapsed because attributes are functions of others."""
    return {
        "cliques": [list(clique) for clique in collapse.outer.cliques],
        "of": {name: [source, codes.tolist()] for name, (source, codes) in collapse.functions.items()},
        "replaced": sorted(collapse.replaced),
        "kept": sorted(sorted(names) for names in collapse.kept),
    }


def _read_collapse(header: Header) -> Collapse | None:
    """Read the description that `_collapse_fields` wrote; None without one.

    Raises:
        Unreadable: the description is wrong.
    """
    fields = header.fields.get("estimate")
    described = fields.get("functions") if isinstance(fields, dict) else None
    if described is None:
        return None
    domain = header.layout.domain
    try:
        outer = Layout.of(domain, [domain.clique(clique) for clique in described["cliques"]])
        functions = {name: _function(domain, name, *source) for name, source in described["of"].items()}
        _check_ends(functions)
        kept = frozenset(frozenset(domain.clique(names)) for names in described["kept"])
        replaced = frozenset(domain.clique(described["replaced"]))
        if not replaced <= functions.keys() or len(outer.cliques) != len(described["cliques"]):
            raise Unreadable("its functions are wrong")
        collapse = Collapse(outer, functions, replaced, kept)
        same = set(collapse.inner.cliques) == set(header.layout.cliques)
    except (PgmestError, AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"its functions are wrong ({error})") from None
    if not same:
        raise Unreadable("its functions are not those of its potentials")
    return collapse


def _function(domain: Domain, name: str, source: str, codes: Any) -> tuple[str, np.ndarray]:
    """Return a function of an attribute, as one code for each of that attribute's codes."""
    size, most = domain[domain.clique(source)[0]], domain[domain.clique(name)[0]]
    values = np.array(codes)
    if values.shape != (size,) or values.dtype.kind != "i" or values.min() < 0 or values.max() >= most:
        raise Unreadable(f"{name} as a function of {source} is wrong")
    return source, values.astype(np.int64)


def _check_ends(functions: Mapping[str, tuple[str, np.ndarray]]) -> None:
    for name in functions:
        seen = {name}
        while name in functions:
            name = functions[name][0]
            if name in seen:
                raise Unreadable("its functions go in a circle")
            seen.add(name)


def base_cells(header: Header) -> int:
    """Return the number of base potentials in a file.

    Raises:
        Unreadable: the header does not say it.
    """
    collapse = _read_collapse(header)
    return header.layout.cells if collapse is None else collapse.outer.cells


def read_measured(
    header: Header, base: np.ndarray, read_answers: Callable[[int], np.ndarray]
) -> tuple[tuple[LinearMeasurement, ...], Refit]:
    """Read the measurements, and the recipe that estimates again.

    Raises:
        Unreadable: they are not in the form that `measured_parts` writes.
    """
    made = read_measurements(header.layout.domain, header.fields.get("measurements"), read_answers)
    return made, _refit(header, base, list(made))


def _refit(header: Header, base: np.ndarray, measurements: list[LinearMeasurement]) -> Refit:
    fields = header.fields.get("estimate")
    if not isinstance(fields, dict) or not (base.size == 0 or base.max() < np.inf):
        raise Unreadable("it does not say how it was estimated")
    total, loss, method = fields.get("total"), fields.get("loss"), fields.get("method")
    if not (total is None or total == "fit" or isinstance(total, int | float)) or not isinstance(loss, str):
        raise Unreadable("its total or loss is wrong")
    steps = fields.get("max_iterations")
    if not isinstance(method, str) or isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise Unreadable("its method is wrong")
    stopping = Stopping(number(fields, "tolerance"), steps)
    try:
        made = make_loss(loss, measurements, header.layout.domain)
        objective = Objective(total, loss, choose_solver(method, made), stopping)
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None
    collapse = _read_collapse(header)
    if not set(made.cliques) <= set((header.layout if collapse is None else collapse.outer).cliques):
        raise Unreadable("its measurements are of other cliques than its potentials")
    return Refit(objective, PropagationPlan.of(header.layout), collapse, base)
