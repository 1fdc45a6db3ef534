"""The measurements and the recipe of an estimate in a model's file, so that a loaded model has error bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.npz import Unreadable, floats, number, objects, whole
from pgmest.errors import PgmestError
from pgmest.inference.exact.functional_dependencies import Collapse
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.losses import make_loss
from pgmest.measurements.files.read import decode_measurements
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.files import Tree, distances_tree, measurements_tree, read_cliques
from pgmest.solvers.choose import SOLVERS, choose_solver
from pgmest.solvers.refit import Objective, Refit
from pgmest.solvers.run import Stopping
from pgmest.tables.clique_vector import Layout
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.models.exact import Model


def estimate_tree(model: Model) -> dict[str, Any]:
    """Return the entries that keep how a model was estimated; or why a file cannot keep it."""
    described = _described(model)
    return {"no_error_bars": described} if isinstance(described, str) else described


def _described(model: Model) -> dict[str, Any] | str:
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
    described = measurements_tree(measurements)
    if isinstance(described, str):
        return described
    estimate = {
        "total": objective.total,
        "loss": objective.loss,
        "method": method,
        "tolerance": objective.stopping.tolerance,
        "max_iterations": objective.stopping.max_iterations,
        "functions": None if refit.collapse is None else _collapse_tree(refit.collapse),
        "base": refit.base,
        "measurements": described,
    }
    return {"estimate": estimate, "bounds": _bounds(model)}


def _bounds(model: Model) -> list[list[Any]]:
    """Describe what paid selections say about unmeasured marginals."""
    from pgmest.models.errors.drawn_intervals import error_model_of

    known = model.known_errors
    if known is None or not (known.selections or known.bounds):
        return []
    return distances_tree(error_model_of(model).unseen.selected_bounds)


def _collapse_tree(collapse: Collapse) -> dict[str, Any]:
    """Describe how cliques were collapsed because attributes are functions of others."""
    return {
        "cliques": [list(clique) for clique in collapse.outer.cliques],
        "of": {name: [source, codes.tolist()] for name, (source, codes) in collapse.functions.items()},
        "replaced": sorted(collapse.replaced),
        "kept": sorted(sorted(names) for names in collapse.kept),
    }


def _read_collapse(domain: Domain, tree: Tree) -> Collapse:
    """Return the description that `_collapse_tree` made.

    Raises:
        Unreadable, KeyError, ...: the description is wrong.
    """
    cliques = read_cliques(domain, tree["cliques"])
    functions = {name: _function(domain, name, *source) for name, source in tree["of"].items()}
    _check_ends(functions)
    kept = frozenset(map(frozenset, read_cliques(domain, tree["kept"])))
    replaced, outer = frozenset(domain.clique(tree["replaced"])), Layout.of(domain, cliques)
    if not replaced <= functions.keys() or len(outer.cliques) != len(cliques):
        raise Unreadable("its functions are wrong")
    return Collapse(outer, functions, replaced, kept)


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


def read_estimate(layout: Layout, tree: Tree) -> tuple[tuple[LinearMeasurement, ...], Refit]:
    """Return the measurements, and the recipe that estimates again, that `estimate_tree` described.

    Raises:
        Unreadable, KeyError, ...: the description is wrong.
    """
    measurements, base = decode_measurements(objects(tree, "measurements"), layout.domain), floats(tree["base"])
    collapse = None if tree["functions"] is None else _read_collapse(layout.domain, tree["functions"])
    if collapse is not None and set(collapse.inner.cliques) != set(layout.cliques):
        raise Unreadable("its functions are not those of its potentials")
    outer = layout if collapse is None else collapse.outer
    if base.size != outer.cells or not (base.size == 0 or base.max() < np.inf):
        raise Unreadable("it does not say how it was estimated")
    total, loss, method = tree["total"], tree["loss"], tree["method"]
    if not (total is None or total == "fit" or isinstance(total, int | float)) or not isinstance(loss, str):
        raise Unreadable("its total or loss is wrong")
    if not isinstance(method, str):
        raise Unreadable("its method is wrong")
    stopping = Stopping(number(tree, "tolerance"), whole(tree, "max_iterations", 1))
    try:
        made = make_loss(loss, list(measurements), layout.domain)
        objective = Objective(total, loss, choose_solver(method, made), stopping)
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None
    if not set(made.cliques) <= set(outer.cliques):
        raise Unreadable("its measurements are of other cliques than its potentials")
    return measurements, Refit(objective, PropagationPlan.of(layout), collapse, base)
