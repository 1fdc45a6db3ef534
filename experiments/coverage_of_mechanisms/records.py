"""Regressions of released records: joined over several tables by `combine`, and a naive one of a single table.

The coefficients are those of the least squares regression of one attribute's code on the codes of two others and a
constant. The truth is the regression of the private table.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import pgmest as pg
from experiments.coverage_of_mechanisms.fits import Run, saved
from experiments.coverage_of_mechanisms.questions import COMBINED, NAIVE, questions, slopes
from experiments.coverage_of_mechanisms.scores import OTHER_LEVELS, Class, holds
from experiments.coverage_of_mechanisms.tables import data_of
from pgmest.analyses.combine import combine
from pgmest.errors import PgmestError
from pgmest.strategies.least_squares import LeastSquaresModel
from pgmest.tables.domain import Clique

TABLES = 20
NORMAL = {0.5: 0.674490, 0.8: 1.281552, 0.9: 1.644854, 0.95: 1.959964, 0.99: 2.575829}
"""How many standard errors an interval of each level reaches."""


def regression(table: pg.Factor) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes of the last attribute's code on the others', and their classical variances."""
    weights = table.datavector()
    codes = np.indices(table.domain.shape).reshape(len(table.domain), -1).T.astype(float)
    design, outcome = np.column_stack([np.ones(len(codes)), codes[:, :-1]]), codes[:, -1]
    inverse = np.linalg.pinv(design.T @ (design * weights[:, None]), hermitian=True)
    estimate = inverse @ (design.T @ (weights * outcome))
    residuals = outcome - design @ estimate
    variance = float(weights @ residuals**2) / max(float(weights.sum()) - len(estimate), 1.0)
    return estimate[1:], variance * np.diag(inverse)[1:]


def rows(run: Run) -> list[dict[str, Any]]:
    """Return the rows of both classes, for the triples of the questions about slopes."""
    data, result = data_of(run.table), saved(run)
    asked = questions(data.domain, [m.clique for m in result.measurements], run.seed)
    triples = [q.clique for q in asked if q.query is slopes and q.clique and _varies(data, q.clique)]
    if not triples:
        return []
    found, start = {COMBINED: Class(), NAIVE: Class()}, time.process_time()
    try:
        tables = result.sample_tables(TABLES, seed=run.seed)
    except (PgmestError, AttributeError) as error:
        found[COMBINED].refused += [f"{type(error).__name__}: {error}"] * len(triples)
        tables = []
    seconds = time.process_time() - start
    one = None if isinstance(result.model, LeastSquaresModel) else result.model.sample(seed=run.seed)
    for triple in triples:
        truth = regression(data.project(triple))[0]
        if one is not None:
            estimate, variance = regression(one.project(triple))
            _add(found[NAIVE], truth, estimate, {level: reach * np.sqrt(variance) for level, reach in NORMAL.items()})
        if tables:
            try:
                joined = combine([regression(table.project(triple)) for table in tables])
            except PgmestError as error:
                found[COMBINED].refused.append(f"{type(error).__name__}: {error}")
                continue
            reaches = {level: joined.interval(level)[1] - joined.estimate for level in NORMAL}
            _add(found[COMBINED], truth, joined.estimate, reaches)
            found[COMBINED].seconds.append(seconds / len(triples))
    return [{"class": name, **one.row(), "first": seconds} for name, one in found.items()]


def _varies(data: pg.Dataset, clique: Clique) -> bool:
    """Return whether none of the attributes is constant, so that there is a regression."""
    return all((data.project((name,)).values > 0).sum() > 1 for name in clique)


def _add(found: Class, truth: np.ndarray, estimate: np.ndarray, reaches: dict[float, np.ndarray]) -> None:
    others = np.array([holds(truth, estimate - reaches[level], estimate + reaches[level]) for level in OTHER_LEVELS])
    found.parts.append(np.vstack([truth, estimate - reaches[0.95], estimate + reaches[0.95], estimate, others]))
