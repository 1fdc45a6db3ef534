"""`load`: a model of any kind from the file that its `save` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgmest.models import files

KINDS = {
    "ApproximateModel": "pgmest.models.region",
    "BayesianNetwork": "pgmest.mechanisms.privbayes.bayesian_network",
    "LeastSquaresModel": "pgmest.strategies.least_squares",
    "LinkedModel": "pgmest.mechanisms.linked.linked_model",
    "Model": "pgmest.models.exact",
    "SupportModel": "pgmest.models.support",
    "ViewModel": "pgmest.mechanisms.priview.view",
}
"""The module of each kind of model, by the name of its class. The class writes a tree of JSON values and arrays
(`saved`) and reads it (`of_saved`)."""


def load(path: str | Path) -> Any:
    """Read a model of any kind from the file that its `save` wrote; it comes back as the same kind.

    Returns:
        a `Model`, `SupportModel`, `ApproximateModel`, `BayesianNetwork`, `ViewModel` or `LeastSquaresModel`; of linked
        tables a `pgmest.mechanisms.linked.LinkedModel`.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    return files.load(path, KINDS)
