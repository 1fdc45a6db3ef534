"""The dependence of pairs beyond one-way marginals, and of triples beyond their pairs."""

from itertools import combinations

import numpy as np
import pytest

import pgmest as pg
from pgmest.mechanisms.lamp.evidence import Evidence
from pgmest.mechanisms.lamp.groups import nested_groups
from pgmest.mechanisms.lamp.scorer import Scorer
from pgmest.mechanisms.lamp.shrinkage import ipf
from pgmest.privacy import Curator, Rho

RECORDS, SIZE = 20_000, 3
NAMES = tuple("abcdefg")
PAIRS, TRIPLES = list(combinations(NAMES, 2)), list(combinations(NAMES, 3))


@pytest.fixture(scope="module")
def data():
    """Attributes that follow a hidden one, but for the last, which is a function of the first two, mostly."""
    rng = np.random.default_rng(5)
    hidden = rng.integers(0, SIZE, RECORDS)
    codes = {name: np.where(rng.random(RECORDS) < 0.5, hidden, rng.integers(0, SIZE, RECORDS)) for name in NAMES[:-1]}
    function = (codes["a"] + codes["b"]) % SIZE
    codes["g"] = np.where(rng.random(RECORDS) < 0.6, function, rng.integers(0, SIZE, RECORDS))
    return pg.Dataset.from_codes([codes[name] for name in NAMES], dict.fromkeys(NAMES, SIZE))


def scorer_of(data, rho):
    counts = {name: data.project((name,)).values.astype(float) for name in data.domain}
    evidence = Evidence(data.domain, RECORDS, {name: (values, 1.0) for name, values in counts.items()}, ())
    levels = {name: nested_groups(values) for name, values in counts.items()}
    return Scorer(Curator(data, Rho(rho), backend="simulation", seed=0), evidence, levels, Rho(rho / 4))


def independent(scorer, clique):
    table = np.ones(())
    for name in clique:
        table = np.multiply.outer(table, scorer.evidence.counts(name))
    return table / RECORDS ** (len(clique) - 1)


def interaction(data, triple):
    """Return the true distance of a triple from the maximum-entropy table given its pairs."""
    table = data.project(triple).values.astype(float)
    margins = {axes: table.sum(axis=3 - sum(axes)) for axes in combinations(range(3), 2)}
    return float(np.abs(table - ipf(np.full(table.shape, table.mean()), margins)).sum())


def asked(data, rho, explain):
    """Return the dependence of all triples if independence is expected."""
    scorer = scorer_of(data, rho)
    pairs = scorer.found([{pair: independent(scorer, pair) for pair in PAIRS}])[0].dependence
    found = scorer.found([{triple: independent(scorer, triple) for triple in TRIPLES}], pairs if explain else {})[
        0
    ].dependence
    return np.array([found[triple].whole for triple in TRIPLES])


@pytest.mark.parametrize("rho", [1e-2, 1.0, 1e3])
def test_errors_of_pairs_are_not_taken_for_interactions_of_three(data, rho):
    truth = np.array([interaction(data, triple) for triple in TRIPLES])
    found, unexplained = asked(data, rho, explain=True), asked(data, rho, explain=False)
    weak = truth < 0.1 * RECORDS
    assert unexplained[weak].mean() > 4 * truth[weak].mean()
    assert found[weak].mean() < 0.5 * unexplained[weak].mean()


def test_what_three_attributes_have_beyond_their_pairs_is_found(data):
    truth, found = np.array([interaction(data, triple) for triple in TRIPLES]), asked(data, 1e3, explain=True)
    strongest = int(np.argmax(truth))
    assert TRIPLES[strongest] == ("a", "b", "g")
    assert int(np.argmax(found)) == strongest
    assert found[strongest] == pytest.approx(truth[strongest], rel=0.2)


@pytest.mark.parametrize(("rho", "times"), [(1e-5, 3), (1e-2, 4)])
def test_triples_are_scored_where_the_noise_is_smaller_than_the_dependence_of_pairs(rho, times):
    census = pg.datasets.load("census")
    census = census.select(census.domain.attributes[:9])
    mechanism = pg.mechanisms.LAMP(rho=rho, records=census.records, backend="simulation")
    result = mechanism.fit(census, pg.workloads.all_kway(census.domain, 3), seed=0, progress=False)
    assert sum("beyond the model" in entry.label for entry in result.ledger.entries) == times
