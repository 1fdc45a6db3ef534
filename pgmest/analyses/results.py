"""Results of analyses by other libraries: estimates, their variances and their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmest.errors import ArgumentError


def read_result(result: Any, data: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the estimate, the variance and the names of one result.

    Raises:
        ArgumentError: a result of an unknown kind, or of scikit-learn without its data.
    """
    if hasattr(result, "params") and hasattr(result, "bse"):  # statsmodels
        names = tuple(map(str, getattr(result.params, "index", ())))
        return np.asarray(result.params, dtype=np.float64), np.asarray(result.bse, dtype=np.float64) ** 2, names
    if hasattr(result, "coef_") and hasattr(result, "intercept_"):  # scikit-learn
        return _scikit_learn(result, data)
    if isinstance(result, tuple | list) and len(result) == 2:
        estimate, variance = (np.asarray(part, dtype=np.float64) for part in result)
        if variance.ndim == 2 and estimate.ndim == 1 and variance.shape == (estimate.size, estimate.size):
            variance = np.diag(variance)
        if variance.shape == estimate.shape:
            return estimate, variance, ()
    raise ArgumentError(
        f"a result of type {type(result).__name__} is not (estimate, variance) of one shape, nor a fitted model of "
        "statsmodels or scikit-learn."
    )


def _scikit_learn(model: Any, data: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return intercept and coefficients with their classical variances, which scikit-learn does not compute."""
    if data is None:
        raise ArgumentError(
            "scikit-learn's models have no standard errors: give data=[(X, y), ...], from which they are computed."
        )
    features, target = np.asarray(data[0], dtype=np.float64), np.asarray(data[1])
    design = np.column_stack([np.ones(len(features)), features])
    coefficients = np.ravel(model.coef_)
    if coefficients.size != features.shape[1]:
        raise ArgumentError("a model of several targets or classes cannot be combined: fit one model for each.")
    estimate = np.append(np.ravel(model.intercept_), coefficients)
    linear = design @ estimate
    if hasattr(model, "classes_"):
        probability = 1.0 / (1.0 + np.exp(-linear))
        information = (design.T * (probability * (1.0 - probability))) @ design
    else:
        residual = target - linear
        information = design.T @ design * ((len(design) - design.shape[1]) / max(float(residual @ residual), 1e-300))
    names = ("intercept", *map(str, getattr(model, "feature_names_in_", [f"x{i}" for i in range(coefficients.size)])))
    return estimate, np.diag(np.linalg.pinv(information)).copy(), names
