"""Refittable: a model that knows what it was estimated from, which is what error bars and bounds need.

They are functions of such a model (uncertainty.py, bounds/), and error_bars.py chooses between them. They
import no kind of model, so every kind that meets this protocol can have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pgmest.errors import ArgumentError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.models.protocol import EstimatedModel
from pgmest.queries import Kron
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

if TYPE_CHECKING:
    from pgmest.inference.exact.propagation_plan import PropagationPlan
    from pgmest.measurements.selection import PaidSelection
    from pgmest.models.uncertainty import Replicates
    from pgmest.solvers.refit import Refit


@dataclass
class KeptDraws:
    """The replicates that were last made of a model, so that further questions cost little."""

    replicates: Replicates | None = None


class AnsweringModel(EstimatedModel, Protocol):
    """A model that answers questions about records with given codes; replicates are such."""

    def project(self, attributes: Iterable[str] | str, given: Mapping[str, int] | None = None) -> Factor:
        """Return the marginal on any attributes, in counts."""
        ...

    def answer(
        self, query: Any, clique: Iterable[str] | str | None = None, given: Mapping[str, int] | None = None
    ) -> Any:
        """Return the answers to linear queries, in counts."""
        ...

    def answer_krons(self, queries: Sequence[Kron], evidence: Mapping[str, int]) -> list[np.ndarray]:
        """Return the answers to checked Krons given checked evidence, in counts."""
        ...


class Refittable(AnsweringModel, Protocol):
    """A model that keeps its measurements and how it was estimated from them."""

    @property
    def measurements(self) -> tuple[LinearMeasurement, ...] | None:
        """The measurements from which the model was estimated; None if they are unknown."""
        ...

    @property
    def refit(self) -> Refit | None:
        """The recipe that estimates again from other answers; None if it is unknown."""
        ...

    @property
    def selections(self) -> tuple[PaidSelection, ...]:
        """The marginals that a mechanism paid to compare with its models and did not choose."""
        ...

    @property
    def kept(self) -> KeptDraws:
        """The replicates that were last made of this model."""
        ...

    def of_potentials(self, potentials: CliqueVector, total: float, plan: PropagationPlan) -> AnsweringModel:
        """Return a model of the same kind with these potentials."""
        ...


def estimated_from(
    model: Any, wanted: str, otherwise: str = "not one that was loaded, conditioned or put together"
) -> tuple[Refit, tuple[LinearMeasurement, ...]]:
    """Return how a model was estimated, and the measurements from which.

    Args:
        model: a model of any kind.
        wanted: the name of what needs both, for the message, such as "error bars".
        otherwise: the end of the message about a model that has lost them.

    Raises:
        ArgumentError: the kind of model has none, or this model has lost them; the message says which call gives one.
    """
    refit, measurements = getattr(model, "refit", None), getattr(model, "measurements", None)
    if refit is not None and measurements is not None and (measurements or not model.no_error_bars):
        return refit, measurements
    kind = type(model).__name__
    if not hasattr(model, "refit"):
        remedy = getattr(model, "refittable_by", "") or "pgmest.estimate(measurements, domain)"
        raise ArgumentError(f"a {kind} has no {wanted}: ask the pgmest.Model that {remedy} returns.")
    if model.no_error_bars:
        raise ArgumentError(
            f"this model has no {wanted}: {model.no_error_bars}. Ask the model that pg.estimate returned, {otherwise}."
        )
    raise ArgumentError(
        f"this model does not know what it was estimated from, so it has no {wanted}: ask the model that pg.estimate "
        f"returned, {otherwise}."
    )
