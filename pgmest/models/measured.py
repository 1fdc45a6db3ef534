"""What a model was estimated from, in its file: enough to estimate again, so that a loaded model has error bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError, PgmestError
from pgmest.inference.exact.plan import Plan
from pgmest.losses import make_loss
from pgmest.measurements.files.query_format import decode_query, encode_query
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.measurements.noise import NOISES
from pgmest.models.archive import Header, Unreadable, number
from pgmest.solvers.choose import SOLVERS, choose_solver
from pgmest.solvers.refit import Objective, Refit
from pgmest.solvers.run import Stopping

if TYPE_CHECKING:
    from pgmest.models.exact import Model

MOST_ENTRIES = 1_000_000
"""Of all query matrices together, which are written as text; with more the measurements are left out."""


def measured_parts(model: Model) -> tuple[dict[str, Any], np.ndarray, np.ndarray] | None:
    """What goes into the header, the base potentials and the answers; None where it cannot be kept."""
    refit, measurements = model.refit, model.measurements
    if refit is None or not measurements or refit.collapse is not None or not refit.picklable:
        return None
    if not all(measurement.noise in NOISES for measurement in measurements):  # answers between two ends
        return None
    objective = refit.objective
    method = objective.solver.name
    if SOLVERS.get(method) is not type(objective.solver) or refit.plan.layout != model.potentials.layout:
        return None
    entries = 0

    def store(array: np.ndarray) -> list[Any]:
        nonlocal entries
        entries += array.size
        return array.tolist() if entries <= MOST_ENTRIES else []

    try:
        described = [
            {
                "clique": list(measurement.clique),
                "rows": measurement.rows,
                "noise": measurement.noise,
                "query": None if measurement.query is None else encode_query(measurement.query, store),
            }
            for measurement in measurements
        ]
    except ArgumentError:
        return None
    if entries > MOST_ENTRIES:
        return None
    estimate = {
        "total": objective.total,
        "loss": objective.loss,
        "method": method,
        "tolerance": objective.stopping.tolerance,
        "max_iterations": objective.stopping.max_iterations,
    }
    parts = [(m.values, np.broadcast_to(m.stddev, m.values.shape)) for m in measurements]
    answers = np.concatenate([part for pair in parts for part in pair])
    return {"estimate": estimate, "measurements": described}, refit.base, answers


def read_measured(
    header: Header, base: np.ndarray, read_answers: Callable[[int], np.ndarray]
) -> tuple[tuple[LinearMeasurement, ...], Refit]:
    """The measurements in a file, and how to estimate again.

    Raises:
        Unreadable: they are not what `measured_parts` makes.
    """
    described = header.fields.get("measurements")
    if not isinstance(described, list) or not all(isinstance(entry, dict) for entry in described):
        raise Unreadable("its measurements are wrong")
    rows = [entry.get("rows") for entry in described]
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in rows):
        raise Unreadable("its measurements have no number of answers")
    answers, place, made = read_answers(2 * sum(rows)), 0, []
    for entry, count in zip(described, rows, strict=True):
        values, stddev = answers[place : place + count], answers[place + count : place + 2 * count]
        place += 2 * count
        made.append(_measurement(header, entry, values, stddev))
    return tuple(made), _refit(header, base, made)


def _measurement(header: Header, entry: dict[str, Any], values: np.ndarray, stddev: np.ndarray) -> LinearMeasurement:
    try:
        domain = header.layout.domain
        clique = domain.clique(entry["clique"])
        spec, query, sizes = entry["query"], None, domain.project(clique)
        if spec is not None:
            query = decode_query(spec, sizes, sizes.size(), len(values), np.asarray)
        elif len(values) != sizes.size():
            raise Unreadable("a measurement has another number of answers than its table has cells")
        return LinearMeasurement(values, clique, stddev, query, entry["noise"])
    except (PgmestError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"a measurement is wrong ({error})") from None


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
    if not set(made.cliques) <= set(header.layout.cliques):
        raise Unreadable("its measurements are of other cliques than its potentials")
    return Refit(objective, Plan.of(header.layout), None, base)
