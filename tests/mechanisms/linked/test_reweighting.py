"""Sums over children that all answers imply: against the normal posterior, and what longer cuts change in them."""

from __future__ import annotations

import numpy as np
import pytest

from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked import reweighting as module
from pgmest.mechanisms.linked.families import Families, Layout
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.reweighting import child_sums
from pgmest.mechanisms.linked.unit_rows import noisy_answers
from pgmest.tables.domain import Domain
from tests.mechanisms.linked.examples import random_families


def lengths_of(families: Families, name: str, stddev: float, cut: float) -> MeasuredLengths:
    groups = (np.arange(families.layout.domain[name]),)
    return MeasuredLengths((name,), groups, families.tables((name,), groups, cut)[0], stddev, False, cut)


def model_of(made: Families, lengths: list[MeasuredLengths], true: Families) -> FamilyModel:
    number = true.layout.number
    sizes = LinearMeasurement(true.above((number,)), (number,), 2.0)
    return FamilyModel(made, tuple(lengths), (sizes,), float(len(true.sizes)), 2.0)


def counts_of(model: FamilyModel) -> np.ndarray:
    return child_sums(model)["persons.a"].values[:, 0]


@pytest.mark.parametrize("ordered", [False, True])
def test_sums_and_their_errors_are_those_of_the_normal_posterior(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOLERANCE", 1e-12)
    made, true = (random_families(np.random.default_rng(seed), 40, 4, ordered=ordered) for seed in (1, 2))
    layout = made.layout
    groups = tuple(np.arange(layout.domain[name]) for name in (layout.members[0], layout.others[1]))
    clique = layout.members[0], layout.others[1]
    across = MeasuredLengths(clique, groups, true.tables(clique, groups, 0.4)[0], 2.0, False, 0.4)
    known = [across, lengths_of(true, layout.members[0], 1.0, 0.0), lengths_of(true, layout.members[0], 3.0, 2.0)]
    numbers = (MeasuredNumbers(layout.members[1], true.numbers(layout.members[1], 1.5)[0], 1.0, 1.5),)
    part = model_of(made, known, true)
    unused = LinearMeasurement(true.above((layout.parents[0],)), (layout.parents[0],), 1.0)
    model = FamilyModel(made, part.lengths, (*part.above, unused), 60.0, 2.0, numbers)
    answers = list(noisy_answers(FamilyModel(made, part.lengths, part.above, 60.0, 2.0, numbers)))
    rows = np.hstack([1.5 * answer.rows(made).toarray() / answer.stddev for answer in answers])
    apart = np.concatenate(
        [(answer.values.ravel() - 1.5 * answer.total(made).ravel()) / answer.stddev for answer in answers]
    )
    precision = rows @ rows.T + np.eye(40) / (40 * module.MODEL_ERROR**2)
    weights = 1.5 * (1 + np.linalg.solve(precision, rows @ apart))
    sizes = made.sizes[made.owners]
    each = np.stack([np.ones(len(sizes)), sizes == 1, (sizes > 1) / sizes], axis=1)
    covariance = 1.5**2 * np.linalg.inv(precision)
    monkeypatch.setattr(module, "DRAWS", 1000)
    for place, name in enumerate(layout.members):
        codes = layout.child.shape[place]
        adds = np.zeros((40, codes, 3))
        np.add.at(adds, (made.owners, made.children[:, place]), each)
        found = child_sums(model)[name]
        assert np.allclose(found.values, np.einsum("u,ucs->cs", weights, adds), atol=1e-6)
        variance = np.einsum("ucs,uv,vcs->cs", adds, covariance, adds)
        assert found.errors.shape == (1000, codes, 3)
        assert np.allclose(np.square(found.errors).mean(axis=0), variance, rtol=0.2, atol=1e-6)


def test_a_long_cut_corrects_the_counts_of_large_families_and_noise_does_not() -> None:
    layout = Layout(Domain({}), Domain({"a": 2}), ("households", "persons"), 8)

    def families(large: int) -> Families:
        """Return 200 families of one child, half with each code, and 100 of eight alike, some with code 1."""
        sizes = np.repeat([1, 8], [200, 100])
        codes = np.repeat(np.concatenate([np.arange(200) % 2, np.arange(100) < large]), sizes)
        return Families(layout, sizes[:, None], codes[:, None])

    made, true = families(50), families(80)
    lengths = {cut: lengths_of(true, "persons.a", 1.0, cut) for cut in (0.0, 8.0)}
    off = {cut: abs(counts_of(model_of(made, [one], true))[1] - 740) for cut, one in lengths.items()}
    assert off[8.0] < 12
    assert off[0.0] > 5 * off[8.0]
    both = [lengths_of(true, "persons.a", stddev, cut) for stddev, cut in ((1.0, 0.0), (1.0, 8.0))]
    assert abs(counts_of(model_of(made, both, true))[1] - 740) < 12
    noisy = [lengths_of(true, "persons.a", 1e6, cut) for cut in (0.0, 8.0)]
    assert np.allclose(counts_of(model_of(true, noisy, true)), [260, 740], atol=1)


def test_counts_without_answers_or_children_are_those_of_the_model() -> None:
    made = random_families(np.random.default_rng(0), 30, 4)
    sums = child_sums(FamilyModel(made, (), (), 60.0, 2.0))
    for name, found in sums.items():
        assert np.allclose(found.values[:, 0], 2 * made.counts((name,)))
        assert not found.errors.any()
    nobody = Families(
        made.layout, made.parents * np.append(np.ones(made.parents.shape[1] - 1, dtype=np.int64), 0), made.children[:0]
    )
    for families in (nobody, Families(made.layout, made.parents[:0], made.children[:0])):
        for found in child_sums(model_of(families, [lengths_of(made, "persons.a", 1.0, 0.0)], made)).values():
            assert not found.values.any()


def test_few_enough_families_get_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_families(np.random.default_rng(0), 300, 14)
    monkeypatch.setattr(module, "MOST_FAMILIES", 100)
    assert len(module._every_nth(made, 1).sizes) == 100
    monkeypatch.setattr(module, "MOST_ENTRIES", 400)
    assert 0 < len(module._every_nth(made, 1).sizes) < 50
    some = made.take(np.array([3, 0]))
    assert np.array_equal(some.sizes, made.sizes[[3, 0]])
    first = [made.children[made.first[g] : made.first[g] + made.sizes[g]] for g in (3, 0)]
    assert np.array_equal(some.children, np.concatenate(first))
