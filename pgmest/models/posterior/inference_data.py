"""A posterior's draws in the form of ArviZ, a library of diagnostics and pictures of Markov chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmest.errors import OptionalDependencyError
from pgmest.models.posterior.drawn_tables import DrawnTables


def inference_data(draws: DrawnTables, shape: tuple[int, ...]) -> Any:
    """Return the draws of totals and of measured marginals; see `Posterior.to_inference_data`.

    Args:
        draws: the draws, chain after chain.
        shape: the numbers of chains and of draws in each.
    """
    try:
        import arviz  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise OptionalDependencyError.of("arviz", "InferenceData") from None
    found: dict[str, np.ndarray] = {"total": draws.totals.reshape(shape)}
    dims: dict[str, list[str]] = {}
    for clique in draws.cliques:
        domain, values = draws.marginals(clique)
        name = ",".join(clique) or "records"
        found[name] = values.reshape(*shape, *domain.shape)
        dims[name] = list(clique)
    coords = {attribute: np.arange(size) for attribute, size in draws.domain.items()}
    if hasattr(arviz, "InferenceData"):  # before ArviZ 1
        return arviz.from_dict(posterior=found, dims=dims, coords=coords)
    return arviz.from_dict({"posterior": found}, dims=dims, coords=coords)
