"""The initial measurements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.mechanisms import LAMP
from pgmest.mechanisms.lamp.candidates import NoiseModel
from pgmest.mechanisms.lamp.initial_measurements import InitialMeasurements
from pgmest.mechanisms.lamp.workload_demand import WorkloadDemand

DOMAIN = pg.Domain({"age": 85, "sex": 2, "income": 2, "work": 9})


def questions(domain=DOMAIN, power=1.0, most=16, workload=None, total_known=False):
    return InitialMeasurements.of(
        domain, WorkloadDemand.of(domain, workload), NoiseModel(1.0, power, most), 0.5, total_known
    )


def errors(domain, shares, contrasted, power):
    """The sum of the attributes' l1 errors, up to a factor, the error in the number of records in each."""
    of_total = shares[()] ** -power if () in shares else 0.0
    found = 0.0
    for name, size in domain.items():
        cost = 1 - 1 / size if name in contrasted else 1.0
        found += np.sqrt(size**2 * cost * (1 - 1 / size) * shares[name,] ** -power + of_total)
    return found


@given(st.lists(st.integers(2, 40), min_size=1, max_size=12), st.sampled_from([1.0, 2.0]), st.integers(0, 10**6))
def test_no_other_shares_have_less_error(sizes, power, seed):
    domain = pg.Domain({f"a{i}": size for i, size in enumerate(sizes)})
    asked = questions(domain, power)
    assert sum(asked.shares.values()) == pytest.approx(0.5)
    least = errors(domain, asked.shares, asked.contrasted, power)
    rng = np.random.default_rng(seed)
    for size in (0.01, 0.3):
        moved = {clique: share * np.exp(size * rng.standard_normal()) for clique, share in asked.shares.items()}
        scale = 0.5 / sum(moved.values())
        other = {clique: share * scale for clique, share in moved.items()}
        assert errors(domain, other, asked.contrasted, power) >= least * (1 - 1e-6)


def test_the_number_of_records_is_asked_where_contrasts_do_not_tell_it():
    assert questions().contrasted == {"sex", "income", "work"}
    assert () in questions().shares
    assert () not in questions(total_known=True).shares
    assert () not in questions(most=1).shares
    assert questions().query(()) is None
    assert questions().query(("age",)) is None
    assert questions().query(("sex",)) is not None


def test_attributes_of_which_ranges_are_asked_are_counted():
    ranges = pg.workloads.prefixes(DOMAIN, [("work", "sex")], ["work"])
    assert questions(workload=ranges).contrasted == {"sex"}


def test_two_codes_cost_half_of_their_counts():
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes(list(rng.integers(0, 2, (8, 1000))), dict.fromkeys("abcdefgh", 2))
    result = LAMP(rho=0.1, backend="simulation", records=1000).fit(data, seed=0, progress=False)
    bought = {p.clique for p in result.details["measured_marginals"] if p.round == 0}
    assert bought == {(), *((name,) for name in data.domain)}
