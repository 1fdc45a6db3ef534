"""The conversion of the argument `loss` of `estimate` to a loss that solvers can minimize."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pgmest.errors import ArgumentError
from pgmest.losses.base import FlatLoss
from pgmest.losses.compose import FunctionLoss, SumLoss
from pgmest.losses.interval import IntervalLoss
from pgmest.losses.l2 import L2Loss
from pgmest.losses.likelihood import NegativeLogLikelihood
from pgmest.losses.robust import HuberLoss, L1Loss
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.tables.domain import Domain, as_domain

# The names of losses in `estimate(loss=...)`.
LOSSES: dict[str, Callable[..., FlatLoss]] = {
    "l2": L2Loss,
    "l1": L1Loss,
    "huber": HuberLoss,
    "likelihood": NegativeLogLikelihood,
}


def make_loss(loss: Any, measurements: Iterable[LinearMeasurement], domain: Domain | Mapping[str, int]) -> FlatLoss:
    """Return the loss that solvers minimize, of the measurements that are not exact: exact ones are facts (`Facts`).

    Args:
        loss: a name ("l2", "l1", "huber", "likelihood"); a class or function that makes a loss from measurements and
            a domain; or an object with the Loss protocol, which does not read `measurements`.
        measurements: the noisy answers.
        domain: the domain of the marginals.

    Raises:
        ArgumentError: the name is unknown, `loss` is not a loss, or it is over another domain.
        UnknownAttributeError, ShapeError, QueryError: a measurement does not fit the domain.
    """
    domain = as_domain(domain)
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ArgumentError.of("loss", loss, [*LOSSES])
        return _with_intervals(LOSSES[loss], uncertain(measurements), domain)
    if isinstance(loss, FlatLoss):
        if loss.domain != domain:
            raise ArgumentError("the loss is over another domain than the measurements; make it over the same domain.")
        return loss
    if not isinstance(loss, type) and hasattr(loss, "cliques") and hasattr(loss, "value_and_gradient"):
        lipschitz, smooth = getattr(loss, "lipschitz", None), getattr(loss, "smooth", True)
        return FunctionLoss(loss.value_and_gradient, domain, loss.cliques, lipschitz, smooth)
    if callable(loss):
        made = loss(uncertain(measurements), domain)
        if not callable(made):
            return make_loss(made, measurements, domain)
    raise ArgumentError.of("loss", loss, f"one of {', '.join(map(repr, LOSSES))}, or an object with the Loss protocol")


def uncertain(measurements: Iterable[LinearMeasurement]) -> tuple[LinearMeasurement, ...]:
    """Return the measurements some of whose answers are not exact."""
    return tuple(m for m in measurements if m.noisy or not m.exact_rows.all())


def _with_intervals(
    loss: Callable[..., FlatLoss], measurements: tuple[LinearMeasurement, ...], domain: Domain
) -> FlatLoss:
    """Return the loss of the noisy answers plus the IntervalLoss of the answers that lie between two ends."""
    if not measurements:
        return L2Loss((), domain)  # facts alone leave nothing to minimize, whatever the loss
    between = [measurement for measurement in measurements if not measurement.noisy]
    if not between or loss is NegativeLogLikelihood:
        return loss(measurements, domain)
    noisy = [measurement for measurement in measurements if measurement.noisy]
    intervals = IntervalLoss(between, domain)
    return SumLoss([loss(noisy, domain), intervals]) if noisy else intervals
