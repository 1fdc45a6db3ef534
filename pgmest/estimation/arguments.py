"""The arguments of `estimate`: the types of those that its overloads share, and their checks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypedDict

import numpy as np

from pgmest._base.memory import check_room
from pgmest.errors import ArgumentError, MeasurementError
from pgmest.inference.exact.structural_zeros import StructuralZeros
from pgmest.measurements.measurement import LARGEST_ANSWER, LinearMeasurement
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.solvers.run import Callback
from pgmest.solvers.solver import Solver
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain


class Options(TypedDict, total=False):
    """The keyword arguments of `estimate` that its overloads share; `estimate` explains them."""

    total: float | Literal["fit"] | None
    method: str | Solver[Any]
    loss: Any
    prior_weight: float | None
    init: Model | SupportModel | CliqueVector | None
    structural_zeros: StructuralZeros | None
    tolerance: float
    max_iterations: int
    callback: Callback | None
    max_megabytes: float | None


def checked_measurements(measurements: Iterable[LinearMeasurement], domain: Domain) -> tuple[LinearMeasurement, ...]:
    """Return the measurements, after checking that each fits the domain and that its marginal fits in memory.

    Raises:
        MeasurementError: an entry is not a LinearMeasurement.
        UnknownAttributeError, QueryError, ModelTooLarge: a measurement does not fit.
    """
    if isinstance(measurements, LinearMeasurement):
        measurements = [measurements]
    given, checked = tuple(measurements), []
    for position, measurement in enumerate(given):
        if not isinstance(measurement, LinearMeasurement):
            raise MeasurementError(
                f"measurements[{position}] is a {type(measurement).__name__}, not a LinearMeasurement; "
                "wrap the noisy values: LinearMeasurement(values, clique, stddev)."
            )
        plain = measurement.without_levels(domain)
        plain.check(domain)
        check_room(f"the marginal of measurements[{position}]", plain.cells)
        checked.append(plain)
    return tuple(checked)


def check_numbers(total: Any, tolerance: Any, max_iterations: Any) -> None:
    """Check the numeric arguments.

    Raises:
        ArgumentError: one of them is not valid.
    """
    number = isinstance(total, int | float | np.number) and 0 <= total <= LARGEST_ANSWER
    if not (total is None or number or (isinstance(total, str) and total == "fit")):
        raise ArgumentError.of("total", total, 'a number of records, None to estimate it, or "fit"')
    if not (isinstance(tolerance, int | float | np.number) and 0 <= tolerance < math.inf):
        raise ArgumentError.of("tolerance", tolerance, "a number of at least 0, such as 1e-3")
    if not isinstance(max_iterations, int | np.integer) or max_iterations < 0:
        raise ArgumentError.of("max_iterations", max_iterations, "an integer of at least 0")
