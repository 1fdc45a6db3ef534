"""Thresholds: no label of one person alone is released but with probability delta, and no threshold is higher than that
takes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError
from pgmest.privacy import GDP, AddRemove, ApproxDP, DatasetLedger, Epsilon, Replace, Rho
from pgmest.privacy.audit import audit
from pgmest.privacy.budgets import equal_parts
from pgmest.privacy.curator import Curator
from pgmest.privacy.noise import Noise, noise_for
from pgmest.privacy.thresholds import log_tail, threshold
from pgmest.privacy.transcript import Witness, privacy_loss

DELTAS = st.floats(-12, -1).map(lambda power: 10.0**power)
SPENDS = st.one_of(st.floats(0.05, 20).map(Epsilon), st.floats(0.001, 50).map(Rho))


def probabilities(noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers and how likely each is, to where nothing is left."""
    far = math.ceil(60 * noise.scale) + 40
    steps = np.arange(-far, far + 1)
    power = -np.abs(steps) / noise.scale if noise.kind == "discrete_laplace" else -(steps**2) / (2 * noise.scale**2)
    weights = np.exp(power)
    return steps, weights / weights.sum()


@given(spend=SPENDS, least=st.integers(-30, 60))
def test_tails_are_those_of_the_noise(spend, least):
    noise = noise_for(spend, AddRemove())
    steps, chances = probabilities(noise)
    exact = chances[steps >= least].sum()
    assert math.isclose(math.exp(float(log_tail(noise, np.array(least)))), exact, rel_tol=1e-6, abs_tol=1e-13)


@given(spend=SPENDS, records=st.integers(1, 6), delta=DELTAS)
def test_what_one_person_alone_has_stays_hidden(spend, records, delta):
    """The threshold covers every way to share k records among labels, and three steps less would not."""
    noise = noise_for(spend, AddRemove(records))
    least = threshold(noise, records, delta)
    steps, chances = probabilities(noise)
    for labels in range(1, records + 1):
        for largest in range(1, records - labels + 2):
            shares = [largest, *[1] * (labels - 1)]
            shown = sum(chances[steps >= least - count].sum() for count in shares)
            assert shown <= delta * (1 + 1e-9)
    if records == 1:
        assert chances[steps >= least - 1 - 3].sum() > delta * 0.2 or least == 1 + 2


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, math.nan])
def test_a_delta_is_needed(delta):
    with pytest.raises(ArgumentError, match="delta"):
        threshold(noise_for(Rho(1.0), AddRemove()), 1, delta)


def labels_of(codes: dict[int, str]):
    def counts(data: Dataset) -> dict[str, int]:
        found, numbers = np.unique(data.column("x"), return_counts=True)
        return {codes[int(code)]: int(number) for code, number in zip(found, numbers, strict=True)}

    return counts


NAMES = {code: f"label {code}" for code in range(8)}
TABLES = st.lists(st.integers(0, 5), max_size=60)


def dataset(codes):
    return Dataset.from_codes([np.array(codes, dtype=int)], {"x": 8})


@given(
    common=TABLES,
    odd=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    other=st.lists(st.integers(0, 7), min_size=3, max_size=3),
    spend=st.sampled_from([Rho(0.5), Epsilon(2.0)]),
    replace=st.booleans(),
    seed=st.integers(0, 99),
)
def test_one_person_moves_no_more_than_is_paid_for(common, odd, other, spend, replace, seed):
    """The labels that both tables have at the price charged, those of one of them with at most delta."""
    relation = Replace(3) if replace else AddRemove(3)
    odd = (odd * 3)[:3] if replace else odd
    data, neighbor = dataset([*common, *odd]), dataset([*common, *other] if replace else common)
    for one, two in ((data, neighbor), (neighbor, data)):
        witness = Witness(one, two, spend, neighbors=relation, backend="simulation", seed=seed, threshold_delta=1e-3)
        released = witness.frequent(labels_of(NAMES), spend, 1e-3, label="x")
        assert witness.excessive == []
        assert set(released) <= set(labels_of(NAMES)(one))
        assert witness.ledger.threshold_delta == 1e-3
        noise = noise_for(spend, relation)
        steps, chances = probabilities(noise)
        least = threshold(noise, 3, 1e-3)
        only = [n for label, n in labels_of(NAMES)(one).items() if label not in labels_of(NAMES)(two)]
        assert sum(chances[steps >= least - n].sum() for n in only) <= 1e-3


def test_the_budget_and_delta_are_charged_before_anything_is_looked_at():
    looked = []
    curator = Curator(dataset([1] * 50), Rho(1.0), backend="simulation", seed=0, threshold_delta=1e-6)
    counts = lambda data: looked.append(1) or labels_of(NAMES)(data)  # noqa: E731
    with pytest.raises(ArgumentError, match="at most 1e-06"):
        curator.frequent(counts, Rho(0.5), 1e-5, label="x")
    assert not looked
    assert not curator.ledger.entries
    assert curator.frequent(counts, Rho(0.5), 1e-6, label="x") == ["label 1"]
    with pytest.raises(ArgumentError, match="at most 0, which is left"):
        curator.frequent(counts, Rho(0.1), 1e-9, label="x")
    assert curator.ledger.statement().to_json()["threshold_delta"] == {"most": 1e-6, "spent": 1e-6}
    gaussian = Curator(dataset([1]), GDP(1.0), backend="simulation", seed=0, threshold_delta=1e-6)
    with pytest.raises(ArgumentError, match="whole counts"):
        gaussian.frequent(counts, GDP(0.5), 1e-6, label="x")
    assert (
        Curator(dataset([]), Rho(1.0), backend="simulation", threshold_delta=1e-6).frequent(
            counts, Rho(1.0), 1e-6, label="x"
        )
        == []
    )


@pytest.mark.parametrize("delta", ["1e-9", None, 1j, float("nan"), -1e-9, 1.0])
def test_a_delta_that_is_no_probability_is_named_before_anything_is_paid(delta):
    with pytest.raises(ArgumentError, match="delta="):
        Curator(dataset([1]), Rho(1.0), threshold_delta=delta)
    curator = Curator(dataset([1]), Rho(1.0), threshold_delta=1e-6)
    with pytest.raises(ArgumentError, match="delta="):
        curator.frequent(labels_of(NAMES), Rho(0.5), delta, label="x")
    assert not curator.ledger.entries


def test_the_secure_noise_finds_what_is_frequent():
    curator = Curator(dataset([1] * 500 + [2] * 400 + [3]), Epsilon(1.0), threshold_delta=1e-9)
    assert curator.frequent(labels_of(NAMES), Epsilon(1.0), 1e-9, label="x") == ["label 1", "label 2"]


@pytest.mark.parametrize("broken", [False, True])
def test_an_audit_sees_a_threshold_that_is_too_low(broken, monkeypatch):
    """With power: one label of one person, released as soon as it occurs, contradicts the claim by any budget."""
    if broken:
        monkeypatch.setattr("pgmest.privacy.choices.threshold", lambda noise, records, delta: 1)
    data, neighbor = dataset([1] * 40 + [7]), dataset([1] * 40)

    def run(curator):
        curator.frequent(labels_of(NAMES), Epsilon(1.0), 1e-4, label="x")

    options = {"backend": "simulation", "threshold_delta": 1e-4}
    private = privacy_loss(run, data, neighbor, Epsilon(1.0), **options)
    report = audit(private, data, neighbor, trials=300, claim=ApproxDP(1.0, 1e-4), delta=1e-4)
    assert report.contradicts(ApproxDP(1.0, 1e-4)) == broken


# -- shares of a delta ------------------------------------------------------------------------------------------------


@given(st.floats(1e-300, 0.5), st.integers(1, 60))
def test_equal_parts_never_exceed_what_is_split(delta, parts):
    shares = equal_parts(delta, parts)
    assert len(shares) == parts
    assert sum(map(Fraction, shares)) <= Fraction(delta)
    assert shares[0] >= delta / parts * (1 - 1e-15)


@pytest.mark.parametrize("parts", [3, 7, 11, 49])
def test_shares_that_exceed_a_delta_by_rounding_alone_are_cut_to_what_is_left(tmp_path, parts):
    """Shares of a delta behave like shares of a budget: dividing it by hand is not refused half-way."""
    ledger = DatasetLedger.create(tmp_path / "l", Rho(10.0), threshold_delta=1e-9)
    curator = Curator(dataset([1] * 50), Rho(1.0), ledger=ledger, threshold_delta=1e-9)
    for share in [math.nextafter(1e-9 / parts, 1)] * parts:
        curator.frequent(labels_of(NAMES), Rho(1 / 64), share, label="x")
    assert curator.ledger.threshold_delta <= 1e-9
    with pytest.raises(ArgumentError, match="left for thresholds"):
        curator.frequent(labels_of(NAMES), Rho(1 / 64), 1e-12, label="x")
    curator.close()
    ledger.refresh()
    assert 0 <= ledger.threshold_delta_left < 1e-20
