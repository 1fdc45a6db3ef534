"""IDE as published: Definition 3.1 in all four cases, answers that emptied cells take part in, random updates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import pgmest as pg
from experiments.ide_two_stage import dense_matrix
from pgmest.errors import ArgumentError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.priors import Level, measure_hierarchy, synthesize_hierarchy
from pgmest.priors.ide.answers import partial_answers
from pgmest.priors.ide.hierarchy import LevelAnswers
from pgmest.priors.ide.projection import project_answer
from pgmest.priors.ide.update import iterative_update, prior_fractions, update_prior
from pgmest.privacy.budgets import Epsilon
from pgmest.privacy.curator import Curator
from tests.privacy.amounts import epsilon

SEEDS = st.integers(0, 10**6)
DOMAIN = pg.Domain({"a": 3, "b": 2})


def definition_3_1(p: np.ndarray, workload: np.ndarray, y: np.ndarray) -> np.ndarray:
    """f(p; W_s, y_s) word by word: W_s of shape (k, records) with entries 0 and 1, at most one 1 in a column."""
    q = np.empty_like(p)
    outside = workload.sum(axis=0) == 0
    rest = 1 - y.sum() if y.sum() < 1 - 1e-14 else 0.0  # not a rounding error, which later updates would blow up
    for j in range(len(p)):
        if not outside[j]:
            i = int(np.flatnonzero(workload[:, j])[0])
            held = workload[i] @ p
            q[j] = p[j] * y[i] / held if held > 0 else y[i] / workload[i].sum()
        else:
            held = p[outside].sum()  # 1 minus the sum of W p, but exact where hardly anything is outside
            q[j] = p[j] * rest / held if held > 0 else rest / outside.sum()
    return q


@pytest.mark.parametrize(
    ("fractions", "masses", "outside", "records", "expected"),
    [
        ([0.5, 0.5], [1.0, 0.0], 0.0, [1, 1, 0], [0.5, 0.5, 0.0]),  # an emptied cell comes back (second case)
        ([0.5, 0.5], [1.0, 0.0], 0.0, [1, 0, 0], [1.0, 0.0, 0.0]),  # a cell without records cannot
        ([0.2, 0.3], [1.0, 0.0], 0.0, [1, 1, 5], [0.2, 0.3, 0.5]),  # so does what lies outside (fourth case)
        ([0.2, 0.3], [1.0, 0.0], 0.0, [1, 1, 0], [0.7, 0.3, 0.0]),  # the surplus goes to what holds mass
        ([0.7, 0.6], [1.0, 0.0], 0.0, [1, 1, 0], [0.7, 0.3, 0.0]),  # the lack is borne by what was empty
        ([1.2, 0.6], [1.0, 0.0], 0.0, [1, 1, 0], [1.0, 0.0, 0.0]),
        ([0.9, 0.9], [0.0, 0.0], 1.0, [1, 1, 1], [0.5, 0.5, 0.0]),
        ([0.2, 0.3], [0.5, 0.1], 0.4, [1, 1, 1], [0.2, 0.3, 0.5]),  # nothing empty: as in the other form
        ([0.9, 0.4], [0.5, 0.3], 0.2, [1, 1, 1], [0.625, 0.375, 0.0]),
    ],
)
def test_nearest_answers_by_hand(fractions, masses, outside, records, expected):
    inside, rest = project_answer(np.array(fractions), np.array(masses), outside, np.array(records))
    np.testing.assert_allclose([*inside, rest], expected, atol=1e-12)


@given(seed=SEEDS, cells=st.integers(1, 6))
@settings(max_examples=80)
def test_it_is_nearest_among_what_the_records_can_answer(seed, cells):
    generator = np.random.default_rng(seed)
    records = generator.integers(0, 3, cells + 1)
    records[0] += 1
    masses = generator.dirichlet(np.ones(cells + 1)) * (generator.random(cells + 1) < 0.6) * (records > 0)
    if masses.sum() == 0:
        masses[0] = 1.0
    masses /= masses.sum()
    fractions = generator.normal(0.3, 0.4, cells)
    inside, rest = project_answer(fractions, masses[:-1], masses[-1], records)
    found = np.append(inside, rest)
    assert found.sum() == pytest.approx(1.0)
    assert np.all(found >= 0)
    assert np.all(found[records == 0] == 0)
    identity = np.eye(cells)
    best = linprog(
        np.concatenate([np.zeros(cells + 1), np.ones(2 * cells)]),
        A_eq=np.block(
            [[identity, np.zeros((cells, 1)), identity, -identity], [np.ones(cells + 1), np.zeros(2 * cells)]]
        ),
        b_eq=[*fractions, 1.0],
        bounds=[(0, None if count > 0 else 0) for count in records] + [(0, None)] * 2 * cells,
    )
    assert np.abs(inside - fractions).sum() == pytest.approx(best.fun, abs=1e-9)


@given(seed=SEEDS, refill=st.booleans(), order=st.sampled_from(["sweeps", "random"]))
@settings(max_examples=60)
def test_updates_are_definition_3_1_word_by_word(seed, refill, order):
    """Two overlapping marginals and one query that leaves records outside; records without weight among the prior's."""
    generator = np.random.default_rng(seed)
    codes = np.indices(DOMAIN.shape).reshape(2, -1).T[generator.random(6) < 0.8]
    if not len(codes):
        codes = np.array([[0, 0]])
    weights = generator.random(len(codes)) * (generator.random(len(codes)) < 0.7)
    weights[0] += 0.1
    prior = pg.Dataset.from_codes(codes, DOMAIN, weights=weights)
    measurements = [
        LinearMeasurement(generator.normal(0.3, 0.5, 3), "a"),
        LinearMeasurement(generator.normal(0.4, 0.5, 2), "b"),
        LinearMeasurement(generator.normal(0.3, 0.5, 2), "a", query=np.eye(3)[:2]),
    ]
    answers, start = partial_answers(prior, measurements, 1.0), prior_fractions(prior)
    found, path, _ = iterative_update(start, answers, 4, 0.0, np.random.default_rng(seed), order=order, refill=refill)
    same, expected = np.random.default_rng(seed), start.copy()
    for _ in path:
        for position in same.permutation(3) if order == "sweeps" else same.integers(3, size=3):
            workload = dense_matrix(answers[position])
            masses, outside = workload @ expected, float(expected @ (workload.sum(axis=0) == 0))
            counts = np.append(workload.sum(axis=1), (workload.sum(axis=0) == 0).sum())
            y, _ = project_answer(answers[position].fractions, masses, outside, counts if refill else None)
            expected = definition_3_1(expected, workload, y)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_an_emptied_cell_comes_back_only_in_the_published_form():
    """The first answer empties a = 1, the second wants it: what the issue between the two forms is."""
    prior = pg.Dataset.from_codes(np.array([[0, 0], [1, 0], [1, 1]]), DOMAIN)
    empties = LinearMeasurement([10.0, 0.0, 0.0], "a")
    wants = LinearMeasurement([5.0, 5.0], "b")
    kept = update_prior(prior, [empties, wants], total=10.0, max_sweeps=30, seed=0)
    assert kept.data.project("a").values[1] == 0.0
    back = update_prior(prior, [empties, wants], total=10.0, max_sweeps=30, order="random", refill=True, seed=0)
    assert max(back.data.project("b").values[1], back.data.project("a").values[1]) > 0.0


def test_random_updates_make_all_of_them_and_visit_by_chance():
    prior = pg.Dataset.from_codes(np.array([[0, 0], [1, 1]]), DOMAIN)
    exact = [LinearMeasurement([4.0, 6.0, 0.0], "a"), LinearMeasurement([4.0, 6.0], "b")]
    update = update_prior(prior, exact, total=10.0, max_sweeps=7, order="random", seed=1)
    assert update.report.sweeps == 7
    assert update.report.converged
    np.testing.assert_allclose(update.data.project("a").values, [4.0, 6.0, 0.0])


def test_a_record_without_weight_makes_the_divergence_infinite_when_it_comes_back():
    prior = pg.Dataset.from_codes(np.array([[0, 0], [1, 1]]), DOMAIN, weights=[1.0, 0.0])
    measurements = [LinearMeasurement([4.0, 6.0, 0.0], "a")]
    assert update_prior(prior, measurements, total=10.0).report.divergence == 0.0
    back = update_prior(prior, measurements, total=10.0, refill=True)
    assert back.report.divergence == math.inf
    np.testing.assert_allclose(back.data.project("a").values, [4.0, 6.0, 0.0])


@pytest.mark.parametrize("options", [{"order": "shuffled"}, {"refill": True, "prior_weight": 0.5}])
def test_what_is_no_form_is_refused(options):
    prior = pg.Dataset.from_codes(np.array([[0, 0], [1, 1]]), DOMAIN)
    with pytest.raises(ArgumentError, match=next(iter(options))):
        update_prior(prior, [LinearMeasurement([4.0, 6.0, 0.0], "a")], **options)


def test_algorithm_2_spends_four_equal_parts():
    """A state's count, its workload, a group's count, its workload: a quarter of epsilon each."""
    domain = pg.Domain({"state": 2, "puma": 2, "sex": 2, "age": 3})
    generator = np.random.default_rng(0)
    data = pg.Dataset.from_codes(generator.integers(0, domain.shape, (400, 4)), domain)
    curator = Curator(data, Epsilon(8.0), backend="simulation", seed=0)
    levels = (
        Level(("state",), cliques=(("sex", "age"),), share=0.5, count_share=0.5),
        Level(("state", "puma"), cliques=(("sex",), ("age",)), share=0.5, count_share=0.5),
    )
    measured = measure_hierarchy(curator, levels)
    spent = [epsilon(entry.cost) for entry in curator.ledger]
    assert spent == pytest.approx([2.0, 2.0, 2.0, 1.0, 1.0])
    made = synthesize_hierarchy(
        data, measured, prior_weight=0.0, max_support=None, order="random", refill=True, max_sweeps=2, tolerance=0.0,
        seed=0,
    ).data  # fmt: skip
    assert made.records == pytest.approx(400, abs=20)


LETTER = {
    "prior_weight": 0.0, "max_support": None, "order": "random", "refill": True, "max_sweeps": 2, "tolerance": 0.0,
    "totals_from": "counts", "sampling": "independent",
}  # fmt: skip


def two_groups(count=(400.75, -3.0), tables=((900.0, 100.0), (50.0, 60.0))):
    """Answers whose table sums say something else than the counts, and public records of two kinds."""
    domain = pg.Domain({"puma": 2, "sex": 2})
    public = pg.Dataset.from_codes(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), domain)
    level = Level(("puma",), cliques=(("sex",),), share=1.0, count_share=0.5)
    counts = LinearMeasurement(np.array(count), "puma", stddev=10.0)
    return public, [LevelAnswers(level, counts, (LinearMeasurement(np.array(tables), ("puma", "sex"), stddev=10.0),))]


def test_the_letter_takes_the_floor_of_the_noisy_count_and_nothing_else():
    """Lines 2, 3 and 16 of Algorithm 2: floor(max(n, 0)) for the answers and the number of records of each group."""
    made = synthesize_hierarchy(*two_groups(), seed=0, **LETTER)
    assert made.totals.tolist() == [400.0, 0.0]
    assert made.data.project("puma").values.tolist() == [400.0, 0.0]
    mean = synthesize_hierarchy(*two_groups(), seed=0, **{**LETTER, "totals_from": "all"})
    combined = [(400.75 / 100 + 1000 / 200) / 0.015, (-3.0 / 100 + 110 / 200) / 0.015]
    np.testing.assert_allclose(mean.totals, combined)
    assert mean.data.records == sum(round(one) for one in combined)


def test_the_letter_draws_its_records_one_by_one():
    """The number of a kind among n independent draws has variance n p (1 - p); in a stratified sample it is fixed."""
    counts, share = {}, 0.3
    answers = two_groups((400.0, 0.0), ((400 * share, 400 * (1 - share)), (0.0, 0.0)))
    for sampling in ("independent", "stratified"):
        options = {**LETTER, "sampling": sampling}
        counts[sampling] = [
            synthesize_hierarchy(*answers, seed=seed, **options).data.project("sex").values[0] for seed in range(200)
        ]
    assert set(counts["stratified"]) == {400 * share}
    assert np.mean(counts["independent"]) == pytest.approx(400 * share, abs=3)
    assert np.var(counts["independent"]) == pytest.approx(400 * share * (1 - share), rel=0.4)


@pytest.mark.parametrize(("option", "value"), [("totals_from", "count"), ("sampling", "iid"), ("sampling", None)])
def test_ways_that_do_not_exist_are_refused(option, value):
    with pytest.raises(ArgumentError, match=f"{option}={value!r} is not valid: it must be one of"):
        synthesize_hierarchy(*two_groups(), **{option: value})
