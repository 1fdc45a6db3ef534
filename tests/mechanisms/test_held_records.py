"""Records that hold invariants: exactly wherever whole numbers can, with few changes, none of which is impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import zeros
from pgmest.mechanisms import held_records
from pgmest.mechanisms.held_records import known_tables, with_invariants
from pgmest.privacy import Curator, Replace, Rho


def random_tables(rng, count):
    """Return two tables of records over the same attributes, and a rule that the records of both keep."""
    names = list("abcde")[: rng.integers(2, 6)]
    domain = pg.Domain({name: int(rng.integers(1, 5)) for name in names})
    rule = zeros.impossible(tuple(names[-2:]), [(domain[names[-2]] - 1, 0)])
    made = []
    for _ in range(2):
        columns = [rng.choice(size, 4 * count + 8, p=rng.dirichlet(np.ones(size))) for size in domain.shape]
        kept = ~np.asarray(rule.mask(domain))[columns[-2], columns[-1]]
        if kept.sum() < count:
            columns[-2][:], columns[-1][:], kept[:] = 0, domain[names[-1]] - 1, True
        made.append(pg.Dataset.from_codes([column[kept][:count] for column in columns], domain))
    return made, rule


def possible(domain, rule):
    """Return whether the rule leaves the record that `random_tables` falls back on."""
    names = domain.attributes
    return not np.asarray(rule.mask(domain))[0, domain[names[-1]] - 1]


@pytest.mark.parametrize("most", [1 << 17, 1], ids=["all cells", "listed cells"])
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 7, 60]))
def test_any_records_hold_the_invariants_of_others(most, seed, count):
    rng = np.random.default_rng(seed)
    (true, start), rule = random_tables(rng, count)
    domain = true.domain
    if not possible(domain, rule):
        return
    cliques = [tuple(map(str, rng.permutation(list(domain))[: rng.integers(0, 4)])) for _ in range(rng.integers(1, 4))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(held_records, "MOST_LISTED", most)
        options = {"neighbors": Replace(), "backend": "simulation", "structural_zeros": [rule]}
        curator = Curator(true, Rho(1.0), invariants=list(dict.fromkeys(cliques)), **options)
        found = with_invariants(start, 1, curator, rng)
        again = with_invariants(found, 1, curator, rng)
    assert found.records == count
    for clique in cliques:
        assert (found.project(clique).values == true.project(clique).values).all()
    assert not np.asarray(rule.mask(domain))[
        found.column(domain.attributes[-2]), found.column(domain.attributes[-1])
    ].any()
    assert all((one == other).all() for one, other in zip(found.columns, again.columns, strict=True))
    if len(set(cliques)) == 1:
        surplus = start.project(cliques[0]).values - true.project(cliques[0]).values
        changed = np.any([one != other for one, other in zip(found.columns, start.columns, strict=True)], axis=0)
        assert changed.sum() == np.maximum(surplus, 0).sum()


def test_records_that_hold_the_invariants_stay_as_they_are():
    data = pg.Dataset.from_codes([[0, 1, 1], [1, 0, 1]], {"a": 2, "b": 2})
    curator = Curator(data, Rho(1.0), neighbors=Replace(), backend="simulation", invariants=[("a", "b"), ()])
    found = with_invariants(data, 1, curator, np.random.default_rng(0))
    assert all((one == other).all() for one, other in zip(found.columns, data.columns, strict=True))
    assert {table.clique for table in known_tables(curator)} == {("a",), ("b",), ("a", "b")}
