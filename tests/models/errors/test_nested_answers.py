"""Answers over groups and over unions of these groups, which intervals join as least squares does."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.lamp.answers import contrast_matrix
from pgmest.models.errors.measured_tables import best_answer
from pgmest.models.errors.table_answers import Side, TableAnswer, centered
from pgmest.queries.levels import level_kron

SHUFFLED = np.array([5, 0, 3, 6, 1, 7, 4, 2])
LEVELS = {
    "finest": (np.arange(8), np.arange(4)),
    "middle": (np.arange(8) // 2, np.arange(4)),
    "coarse": (np.arange(8) // 4, np.arange(4) // 2),
}
NOISE = {"finest": 20.0, "middle": 15.0, "coarse": 30.0}


def answers(kind: str) -> tuple[list[TableAnswer], np.ndarray]:
    """Return an answer at each level with values of noise alone, and an expected table of the finest."""
    generator, found = np.random.default_rng(0), []
    for level, labels in LEVELS.items():
        own = [labels[0][SHUFFLED] if kind == "shuffled" else labels[0], labels[1]]
        matrices = [contrast_matrix(int(side.max()) + 1) if kind == "contrasts" else None for side in own]
        sides = tuple(Side(side, matrix) for side, matrix in zip(own, matrices, strict=True))
        shape = tuple(s.groups if s.matrix is None else len(s.matrix) for s in sides)
        found.append(TableAnswer(("a", "b"), sides, generator.normal(0, 40, shape), NOISE[level]))
    return found, generator.gamma(2.0, 50.0, (8, 4))


def interaction(sizes: tuple[int, ...]) -> np.ndarray:
    """Return the matrix that takes margins off a table."""
    one, other = (np.eye(size) - 1 / size for size in sizes)
    return np.kron(one, other)


@pytest.mark.parametrize("kind", ["ranges", "shuffled", "contrasts"])
def test_the_interaction_is_that_of_least_squares_and_has_its_noise(kind: str):
    found, expected = answers(kind)
    best = best_answer(found)
    assert best is not None
    finest = found[0]
    free = np.linalg.svd(interaction(finest.shape))[0][:, :21]
    rows, off = [], []
    for one in found:
        members = []
        for own, side in zip(one.sides, finest.sides, strict=True):
            of_group = own.labels[np.unique(side.labels, return_index=True)[1]]
            members.append(np.eye(own.groups)[of_group].T)
        sums = np.kron(*members)
        known = one.beyond((sums @ expected.ravel()).reshape(one.shape)).ravel()
        rows.append(interaction(one.shape) @ sums @ free / one.stddev)
        off.append(interaction(one.shape) @ known / one.stddev)
    stacked = np.concatenate(rows)
    wanted = free @ np.linalg.lstsq(stacked, np.concatenate(off), rcond=None)[0]
    np.testing.assert_allclose(centered(best.beyond(expected)[None])[0].ravel(), wanted, atol=1e-8)
    variance = np.trace(free @ np.linalg.inv(stacked.T @ stacked) @ free.T) / 32
    assert best.centered_stddev == pytest.approx(variance**0.5, rel=1e-8)
    drawn = centered(best.noise(4000, np.random.default_rng(1)))
    assert np.sqrt(np.mean(np.square(drawn))) == pytest.approx(best.centered_stddev, rel=0.03)


def test_answers_across_the_groups_are_left_apart():
    across = TableAnswer(("a", "b"), (Side(np.arange(8) // 3), Side(np.arange(4))), np.zeros((3, 4)), 1.0)
    middle = TableAnswer(("a", "b"), (Side(np.arange(8) // 2), Side(np.arange(4))), np.zeros((4, 4)), 5.0)
    assert best_answer([across, middle]) is middle
    assert best_answer([None]) is None


def test_counts_of_branches_that_were_measured_beside_their_codes_have_intervals_of_that_noise():
    """Ten codes each: the sum of their noise is six times that of the branch in a table of two attributes."""
    domain = pg.Domain({"code": 40, "sex": 2}).with_hierarchies(pg.Hierarchy("code", {"chapter": np.arange(40) // 10}))
    generator, widths, held = np.random.default_rng(0), [], []
    data = pg.Dataset.from_codes([generator.integers(0, 40, 20_000), generator.integers(0, 2, 20_000)], domain)
    true = level_kron(domain, ("code@chapter", "sex")).apply(data.project(("code", "sex")))
    for _ in range(6):
        noisy = []
        for names, stddev in ((("code", "sex"), 40.0), (("code@chapter", "sex"), 20.0)):
            query = level_kron(domain, names)
            counts = query.apply(data.project(("code", "sex"))).reshape(-1)
            noisy.append(pg.LinearMeasurement(counts + generator.normal(0, stddev, len(counts)), names, stddev))
        low, high = pg.estimate(noisy, domain).interval(("code@chapter", "sex"))
        widths.append((high.values - low.values) / (2 * 1.96 * 20.0))
        held.append((low.values <= true) & (true <= high.values))
    assert 0.8 < np.mean(widths) < 1.3
    assert np.mean(held) > 0.85
