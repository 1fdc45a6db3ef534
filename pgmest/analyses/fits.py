"""Regressions of statsmodels and scikit-learn: whether records determine them, and their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, listed

SINGULAR = 1e-13
"""The smallest eigenvalue of the Gram matrix of columns of length 1 below which columns depend on one another: rounding
errors are about 1e-15, and powers of years, which nearly depend on one another, are above it."""

FAR, TOO_FAR = 0.1, 3.0
"""The largest distances of coefficients from those of maximum likelihood, in standard errors: without a note, and
without an error if there is no penalty."""

Fit = tuple[np.ndarray, np.ndarray, tuple[str, ...], str, str, float]
"""Estimates, variances, names, the outcome, a note on a penalty, and the degrees of freedom of the variances."""


def unidentified(result: Any) -> str:
    """Return a sentence on the columns of a fit of statsmodels that its records do not determine; "" without any."""
    model = getattr(result, "model", None)
    design = getattr(model, "exog", None)
    if not isinstance(design, np.ndarray) or design.ndim != 2:
        return ""
    names = getattr(model, "exog_names", None) or [f"[{place}]" for place in range(design.shape[1])]
    return _dependent(design, list(map(str, names)))


def _dependent(design: np.ndarray, names: list[str]) -> str:
    """Return a sentence on columns of a design that are 0 or depend on others; "" without any."""
    design = np.asarray(design, dtype=np.float64)
    if not design.size or not np.isfinite(design).all():
        return ""
    lengths = np.sqrt(np.einsum("ij,ij->j", design, design))
    if not lengths.all():
        empty = [name for name, length in zip(names, lengths, strict=False) if not length]
        return (
            f"no record of its table has {listed(empty)}, so that nothing determines the coefficient. "
            "Merge rare categories before the analysis."
        )
    scaled = design / lengths
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    if values[0] > SINGULAR * design.shape[1]:
        return ""
    involved = np.abs(vectors[:, values <= SINGULAR * design.shape[1]]).max(axis=1) > 1e-3
    which = [name for name, one in zip(names, involved, strict=False) if one]
    return (
        f"the columns {listed(which)} of its design determine one another in its table, so that their coefficients are "
        "not unique. Leave one of them out; if they do so in some tables only, merge rare categories."
    )


def read_scikit_learn(model: Any, data: Any) -> Fit:
    """Return intercept and coefficients with their classical variances, which scikit-learn does not compute.

    Records with weights have the variances of a sandwich estimator, which holds for weights of any kind.

    Raises:
        ArgumentError: the data are missing, or are not those of the fit; or the model is of another kind, or about
            several targets or classes.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    logistic = "LogisticRegression" in kinds
    if not logistic and "LinearRegression" not in kinds:
        raise ArgumentError(
            f"the standard errors of a {type(model).__name__} are not known: fit a LinearRegression or a "
            "LogisticRegression(C=np.inf), or give (estimate, variance), such as from a bootstrap of the table."
        )
    features, target, weights = _data(model, data)
    coefficients = np.ravel(model.coef_)
    if coefficients.size != features.shape[1] or (logistic and len(model.classes_) != 2):
        raise ArgumentError("a model of several targets or classes cannot be combined: fit one model for each.")
    names = [*map(str, getattr(model, "feature_names_in_", [f"x{i}" for i in range(coefficients.size)]))]
    design, estimate = features, coefficients
    if model.fit_intercept:
        design, names = np.column_stack([np.ones(len(features)), features]), ["intercept", *names]
        estimate = np.append(np.ravel(model.intercept_), coefficients)
    if reason := _dependent(design, names):
        raise ArgumentError(reason)
    linear = design @ estimate
    if logistic:
        probability = 1.0 / (1.0 + np.exp(-np.clip(linear, -500.0, 500.0)))
        residual, curvature = (target == model.classes_[1]) - probability, probability * (1.0 - probability)
    else:
        residual, curvature = target.astype(np.float64) - linear, np.ones(len(design))
    inverse = np.linalg.pinv((design.T * (weights * curvature)) @ design)
    if np.ptp(weights) > 0:
        variance = inverse @ ((design.T * np.square(weights * residual)) @ design) @ inverse
    else:
        variance = inverse * weights[0]
        variance *= 1.0 if logistic else float(residual @ residual) / max(len(design) - design.shape[1], 1)
    variance = np.diag(variance).copy()
    if not logistic and len(design) <= design.shape[1]:
        variance[:] = np.inf
    step = np.abs(inverse @ (design.T @ (weights * residual)))
    away = float(np.max(step / np.maximum(np.sqrt(variance), 1e-9 * (1.0 + np.abs(estimate)))))
    outcome = " or ".join(map(str, model.classes_)) if logistic else ""
    degrees = np.inf if logistic else max(len(design) - design.shape[1], 1)
    return estimate, variance, tuple(names), outcome, _note_of_distance(model, away), degrees


def _note_of_distance(model: Any, away: float) -> str:
    """Return a note on coefficients that a penalty moved, or whose fit stopped early; "" if they are as they should be.

    Raises:
        ArgumentError: they are so far off without a penalty that the data are not those of the fit.
    """
    if away <= FAR:
        return ""
    logistic, penalty = hasattr(model, "C"), np.isfinite(getattr(model, "C", np.inf))
    if logistic and (penalty or away <= TOO_FAR):
        return (
            f"coefficients of scikit-learn are more than {FAR:g} standard errors away from maximum likelihood, because "
            "of a penalty or a fit that stopped early: the standard errors leave that out. Fit "
            "LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)."
        )
    raise ArgumentError(
        f"the coefficients are {away:.2g} standard errors away from the fit to its data=: give the (X, y) to which the "
        "model was fitted, and (X, y, weights) if it was fitted with weights"
        + ("; the fit may also need a larger max_iter=." if logistic else ".")
    )


def _data(model: Any, data: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, target and weights of the records to which a model was fitted."""
    if data is None:
        raise ArgumentError(
            "scikit-learn's models have no standard errors: give data=[(X, y), ...], from which they are computed."
        )
    expected = "its entry of data= must be (X, y), or (X, y, weights), with one row of X for each y."
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise ArgumentError(expected)
    features = data[0]
    if hasattr(features, "columns") and hasattr(model, "feature_names_in_"):
        if set(model.feature_names_in_) - set(features.columns):
            raise ArgumentError(f"X lacks {listed(sorted(set(model.feature_names_in_) - set(features.columns)))}.")
        features = features[list(model.feature_names_in_)]
    try:
        found = np.asarray(features, dtype=np.float64)
        weights = np.asarray(data[2] if len(data) == 3 else np.ones(len(found)), dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise ArgumentError("X or weights in its entry of data= are not numbers.") from None
    target = np.asarray(data[1])
    target = target.ravel() if target.ndim == 2 and target.shape[1] == 1 else target
    if target.ndim == 2:
        raise ArgumentError("a model of several targets or classes cannot be combined: fit one model for each.")
    if found.ndim != 2 or target.shape != (len(found),) or weights.shape != (len(found),) or not len(found):
        raise ArgumentError(expected)
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.any()):
        raise ArgumentError("weights must be finite and at least 0, and not all 0.")
    kept = weights > 0
    return found[kept], target[kept], weights[kept]
