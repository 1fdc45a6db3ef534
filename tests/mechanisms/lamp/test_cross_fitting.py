"""The prediction of a pair from other pairs, and shrinkage towards it."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.grouped_model import cross_fitted

RECORDS, SIZE = 20_000, 12
NAMES = tuple("abcde")
PAIRS = list(combinations(NAMES, 2))


def followers(seed=0, strength=0.9):
    """Each attribute is a scrambled copy of the one before, mostly: what two pairs say tells the third."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, SIZE, RECORDS)]
    for _ in NAMES[1:]:
        copied = rng.permutation(SIZE)[columns[-1]]
        columns.append(np.where(rng.random(RECORDS) < strength, copied, rng.integers(0, SIZE, RECORDS)))
    return pg.Dataset.from_codes(columns, dict.fromkeys(NAMES, SIZE))


def disagreeing(seed=0):
    """All pairs depend strongly, and those around a triangle otherwise than the others would make one think."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, SIZE, RECORDS)
    columns, kind = [first], rng.integers(0, 4, RECORDS)
    for place in range(4):
        own = np.where(kind == place, (first + place + 1) % SIZE, rng.integers(0, SIZE, RECORDS))
        columns.append(np.where(rng.random(RECORDS) < 0.3, (columns[-1] * 5 + 3) % SIZE, own))
    return pg.Dataset.from_codes(columns, dict.fromkeys(NAMES, SIZE))


def evidence_of(data, stddev, seed=0):
    rng, noisy = np.random.default_rng(seed), []
    for clique in [*((name,) for name in NAMES), *PAIRS]:
        truth, spread = data.project(clique).values, stddev if len(clique) > 1 else 5.0
        noisy.append(LinearMeasurement(truth + rng.normal(0, spread, truth.shape), clique, spread))
    return Evidence.of(noisy, data.domain, data.records)


def off(data, evidence):
    """The mean l1 distance of tables from the truth."""
    return np.mean(
        [
            np.abs(table - data.project(answer.clique).values).sum()
            for answer, table in zip(evidence.answers, evidence.tables, strict=True)
        ]
    )


@pytest.mark.parametrize(("stddev", "left"), [(10.0, 0.95), (40.0, 0.9)])
def test_tables_come_nearer_to_the_truth_where_other_pairs_tell_of_them(stddev, left):
    """Shrinkage helps more where there is more noise; tables with little noise are accurate already."""
    data = followers()
    alone = evidence_of(data, stddev)
    assert off(data, cross_fitted(alone, 8.0)) < left * off(data, alone)


@pytest.mark.parametrize("stddev", [5.0, 20.0, 80.0])
@pytest.mark.parametrize("made", [disagreeing, followers])
def test_no_guess_does_harm(made, stddev):
    before, after = [], []
    for seed in range(4):
        data = made(seed)
        alone = evidence_of(data, stddev, seed)
        before.append(off(data, alone))
        after.append(off(data, cross_fitted(alone, 8.0)))
    assert np.mean(after) < 1.01 * np.mean(before)


def test_a_guess_knows_nothing_of_the_noise_in_its_own_answers():
    data = followers()
    evidence = evidence_of(data, 10.0)
    predictions = cross_fitted(evidence, 8.0).predictions
    assert len(predictions) == len(PAIRS) - (len(NAMES) - 1)  # all beyond a spanning tree
    for pair, guess in predictions.items():
        answers = tuple(
            replace(answer, values=answer.values + np.random.default_rng(1).normal(0, 1.0, answer.values.shape))
            if answer.clique == pair
            else answer
            for answer in evidence.answers
        )
        moved = replace(evidence, answers=answers)
        moved.__dict__["_one_way"] = evidence._one_way  # these hear of each pair
        again = cross_fitted(moved, 8.0).predictions
        assert again[pair] == pytest.approx(guess, abs=1e-9)
        assert any(np.abs(again[other] - predictions[other]).max() > 1e-6 for other in predictions if other != pair)


def test_leaving_pairs_out_changes_others_by_what_they_had_in_common_alone():
    """The distance from independence is learned from all tables together."""
    evidence = evidence_of(followers(), 10.0)
    part = evidence.without({PAIRS[0], PAIRS[3]})
    assert [answer.clique for answer in part.answers] == [pair for pair in PAIRS if pair not in (PAIRS[0], PAIRS[3])]
    whole = {answer.clique: table for answer, table in zip(evidence.answers, evidence.tables, strict=True)}
    for answer, table in zip(part.answers, part.tables, strict=True):
        assert np.abs(table - whole[answer.clique]).sum() < 1e-3 * table.sum()
    assert all(np.array_equal(part.counts(name), evidence.counts(name)) for name in NAMES)
