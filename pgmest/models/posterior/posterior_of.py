"""`posterior_of`: the posterior of a model's measurements."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pgmest.errors import ArgumentError
from pgmest.models.posterior.density import PosteriorDensity
from pgmest.models.posterior.draw import check_settings, draw
from pgmest.models.posterior.posterior import Posterior
from pgmest.models.posterior.prior import InteractionPrior, NormalPrior
from pgmest.models.posterior.strength import learn_strengths
from pgmest.models.refittable import Refittable, estimated_from


def posterior_of(
    model: Refittable,
    draws: int = 1000,
    seed: int = 0,
    *,
    chains: int = 4,
    warm_up: int = 200,
    prior: NormalPrior | InteractionPrior | None = None,
    method: Literal["auto", "laplace", "hmc"] = "auto",
) -> Posterior:
    """Draw models that the answers allow from a posterior distribution; the model keeps it for its intervals.

    This is `Model.posterior`, with its arguments and errors, for every kind of model that can be estimated again.
    """
    check_settings(draws, chains, warm_up, method)
    refit, measurements = estimated_from(model, "posterior")
    if not model.total:
        raise ArgumentError("a model without records has no posterior: every table of it is 0. Ask for its bounds.")
    prior = InteractionPrior() if prior is None else prior
    density = PosteriorDensity.around(model, refit, measurements, prior)
    found = draw(density, draws, chains, warm_up, method, seed)
    learn = partial(learn_strengths, refit, measurements, model.total, model.of_potentials)
    made = Posterior(found.points, density, found.report, model.of_potentials, seed, learn, model.selections)
    model.kept.posterior = made
    return made
