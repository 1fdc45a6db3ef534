"""LAMP: the mechanism as a whole."""

import warnings
from functools import cache

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import LAMP, Independent
from pgmest.mechanisms.lamp.answers import grouping_query
from pgmest.mechanisms.lamp.candidates import MOST_CONTRASTED
from pgmest.models.support import SupportModel
from pgmest.privacy import Curator, Replace, Rho
from pgmest.solvers.total import estimate_total
from tests.mechanisms.auditing import DATA, audit_mechanism, audit_statistics
from tests.mechanisms.repeating import check_cut_journal

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)


def fitted(seed=0, workload=None, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-9, "backend": "simulation", "records": 20_000, **parameters}
    return LAMP(**given).fit(CENSUS, workload, seed=seed, progress=False)


@cache
def usual():
    """The result of usual parameters, which several tests look at."""
    return fitted()


def error(result):
    return workload_error(CENSUS, result, PAIRS, norm="tv", per="record")


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 1e-9}, {"epsilon": 1.0, "delta": 0}])
def test_it_spends_its_budget_and_beats_independence(budget):
    result = fitted(**budget)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert {"measure"} <= {entry.kind for entry in result.ledger} <= {"measure", "release"}
    baseline = Independent(**budget, backend="simulation").fit(CENSUS, seed=0)
    assert error(result) < 0.5 * error(baseline)


def test_where_all_pairs_cost_no_more_than_scores_all_are_measured():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 5000)
    data = pg.Dataset.from_codes([first, first, *rng.integers(0, 2, (6, 5000))], dict.fromkeys("abcdefgh", 2))
    result = LAMP(rho=0.1, backend="simulation", records=5000).fit(data, seed=0, progress=False)
    assert {entry.kind for entry in result.ledger} == {"measure"}
    assert len({p.clique for p in result.details["measured_marginals"] if len(p.clique) == 2}) == 28
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.project(("a", "b")).values[0, 1] < 0.05 * 5000


def test_pairs_that_were_measured_are_not_scored_again():
    result = usual()
    scored = [int(entry.label.split()[2]) for entry in result.ledger if "beyond the model" in entry.label]
    bought = [{p.clique for p in result.details["measured_marginals"] if p.round == turn} for turn in (1, 2)]
    assert len(scored) == 3
    assert scored[1] <= scored[0] - len(bought[0])
    assert scored[2] <= scored[1] - len(bought[1] - bought[0])


def test_with_next_to_no_budget_it_is_no_worse_than_independence():
    found, baseline = [], []
    for seed in range(5):
        result = fitted(seed=seed, epsilon=None, delta=None, rho=1e-7)
        found.append(error(result))
        baseline.append(error(Independent(rho=1e-7, backend="simulation").fit(CENSUS, seed=seed)))
    assert np.mean(found) < 1.01 * np.mean(baseline)


def test_with_much_budget_it_is_close_to_the_data_and_finds_what_a_tree_cannot_hold():
    result = fitted(epsilon=None, delta=None, rho=1e4, max_megabytes=0.02)
    assert error(result) < 0.01


def test_its_model_is_records_and_sampled_ones_are_as_close():
    result = usual()
    assert isinstance(result.model, SupportModel)
    assert result.model.total == pytest.approx(CENSUS.records, rel=0.02)
    records = result.sample(seed=0)
    assert records.records == round(result.model.total)
    assert workload_error(CENSUS, records, PAIRS) < 1.02 * workload_error(CENSUS, result, PAIRS)


def test_its_details_list_the_measured_marginals():
    result = usual()
    bought = result.details["measured_marginals"]
    assert sum(measured.share for measured in bought) == pytest.approx(1 - 0.04)
    assert [p.clique for p in bought if p.round == 0] == [*((name,) for name in CENSUS.domain), ()]
    assert len(bought) == len(result.measurements)
    for measured, measurement in zip(bought, result.measurements, strict=True):
        assert measured.clique == measurement.clique
        contrasts = [size - (1 < size <= MOST_CONTRASTED) for size in measured.groups]
        assert np.prod(contrasts) == measurement.rows
        if len(measured.clique) == 2:
            assert 0 <= measured.after <= measured.before


def test_a_workload_says_which_pairs_matter():
    result = fitted(workload=[("age", "sex"), ("sex", "income>50K")])
    asked = {p.clique for p in result.details["measured_marginals"] if len(p.clique) == 2}
    assert asked <= {("age", "sex"), ("sex", "income>50K")}
    race, truth = (one.project("race").values for one in (result, CENSUS))
    assert np.abs(race - truth).sum() < 0.05 * CENSUS.records  # the workload does not name it
    alone = fitted(workload=["age"])
    assert alone.ledger.remaining / alone.ledger.budget < 1e-9
    triples = fitted(workload=[("age", "sex", "race")])
    assert {n for p in triples.details["measured_marginals"] if len(p.clique) > 1 for n in p.clique} <= {
        "age",
        "sex",
        "race",
    }


def test_where_the_number_of_records_is_public_it_is_used():
    assert fitted(neighbors=Replace()).model.total == CENSUS.records


@pytest.mark.parametrize("sizes", [{"a": 1}, {"a": 1, "b": 1}, {"a": 3}, {"a": 1, "b": 4, "c": 2}])
def test_small_domains_are_no_exception(sizes):
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes([rng.integers(0, size, 50) for size in sizes.values()], pg.Domain(sizes))
    result = LAMP(rho=1.0, backend="simulation", records=1000).fit(data, seed=0)
    assert result.project(data.domain.attributes).values.sum() == pytest.approx(result.model.total)


def test_no_records_at_all_are_no_exception():
    data = pg.Dataset.from_codes(np.empty((0, 3), dtype=int), {"a": 3, "b": 4, "c": 2})
    assert LAMP(rho=1.0, backend="simulation", records=1000).fit(data, seed=0).model.total > 0


def test_the_same_seed_gives_the_same_run():
    first, second, other = fitted(seed=3), fitted(seed=3), fitted(seed=4)
    assert first.sample(100, seed=0) == second.sample(100, seed=0)
    assert first.sample(100, seed=0) != other.sample(100, seed=0)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    mechanism = LAMP(epsilon=1.0, delta=1e-9, backend="simulation", records=20_000)
    check_cut_journal(mechanism, CENSUS, usual(), tmp_path / "run", lines=9, first_share=0.2)


@pytest.mark.parametrize("charges", [1, 5, 6, 9])
def test_an_interrupted_run_keeps_what_was_paid(charges):
    def stop(curator):
        if len(curator.ledger) == charges:
            raise KeyboardInterrupt

    result = (
        LAMP(rho=1.0, backend="simulation", records=5000).fit(CENSUS, seed=0, progress=stop) if charges > 1 else None
    )
    if result is None:
        with pytest.raises(KeyboardInterrupt):
            LAMP(rho=1.0, backend="simulation").fit(CENSUS, seed=0, progress=stop)
        return
    assert result.interrupted
    assert len(result.measurements) >= 4
    assert result.model.total == pytest.approx(CENSUS.records, rel=0.02)


@pytest.mark.parametrize("charges", range(1, 4))
def test_contrasts_alone_give_a_model_after_an_interruption(charges):
    codes = np.random.default_rng(0).integers(0, [2, 3, 5], (5000, 3))
    data = pg.Dataset.from_codes(codes, {"a": 2, "b": 3, "c": 5})
    curator = Curator(data, Rho(1.0), backend="simulation", seed=0)
    mechanism = LAMP(rho=1.0, backend="simulation", records=1000)
    for name in list(data.domain)[:charges]:
        size = data.domain[name]
        curator.measure(name, Rho(0.1), grouping_query((name,), [np.arange(size)], [True]))
    model = mechanism.conclude(curator)
    assert model.total >= 1
    assert np.isfinite(model.project(("a", "b")).values).all()


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0, "delta": 0}])
def test_the_audit_does_not_contradict_the_claim(budget):
    mechanism = LAMP(**budget, backend="simulation", records=200)
    for report in audit_statistics(mechanism):
        assert not report.contradicts(mechanism.budget())


@pytest.mark.parametrize(
    "parameters",
    [
        {"first_share": 0.0},
        {"first_share": 0.97},
        {"scoring_share": 1.0},
        {"rounds": 0},
        {"records": 2.5},
        {"min_error_reduction": 1.5},
        {"max_megabytes": 0},
    ],
)
def test_parameters_are_checked_before_anything_is_paid(parameters):
    with pytest.raises(
        ArgumentError, match=next(iter(parameters)) if parameters != {"first_share": 0.97} else "scoring_share"
    ):
        LAMP(rho=1.0, **parameters)


def test_a_workload_that_cannot_be_used_costs_nothing():
    charges = []
    with pytest.raises(pg.errors.UnknownAttributeError if hasattr(pg, "errors") else Exception):
        LAMP(rho=1.0, backend="simulation").fit(CENSUS, [("age", "nothing")], seed=0, progress=charges.append)
    assert charges == []


# -- workloads of triples and of ranges --------------------------------------------------------------------------------


def exclusive(records=20_000, seed=0):
    """Pairs are independent, three attributes are not: c is a + b modulo 4, mostly."""
    rng = np.random.default_rng(seed)
    first, second, fourth = (rng.integers(0, 4, records) for _ in range(3))
    third = np.where(rng.random(records) < 0.8, (first + second) % 4, rng.integers(0, 4, records))
    noise = np.where(rng.random(records) < 0.3, first, fourth)
    fifth = np.where(rng.random(records) < 0.3, second, noise)
    return pg.Dataset.from_codes([first, second, third, noise, fifth], dict.fromkeys("abcde", 4))


TRIPLES = pg.workloads.marginals([("a", "b", "d"), ("a", "b", "e"), ("b", "d", "e"), ("a", "d", "e")])


def mixed(seed=0, records=20_000):
    """Three attributes that depend on each other by pairs, and beyond them."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 4, records), rng.integers(0, 4, records)
    third = np.where(
        rng.random(records) < 0.5, (first + second) % 4, np.where(rng.random(records) < 0.5, first, second)
    )
    return pg.Dataset.from_codes([first, second, third, rng.integers(0, 4, records)], dict.fromkeys("abcd", 4))


def test_triples_that_depend_beyond_their_pairs_are_measured_where_triples_are_asked():
    data, wanted = mixed(), pg.workloads.all_kway(dict.fromkeys("abcd", 4), 3)
    options = {"rho": 0.05, "backend": "simulation", "records": 20_000}
    pairs = LAMP(**options).fit(data, seed=0, progress=False)
    triples = LAMP(**options).fit(data, wanted, seed=0, progress=False)
    assert {len(p.clique) for p in pairs.details["measured_marginals"]} <= {0, 1, 2}
    bought = {p.clique for p in triples.details["measured_marginals"] if len(p.clique) == 3}
    if bought:  # a pair of a and b is independent: it may be left out, and the triple with it
        assert ("a", "b", "c") in bought
    assert triples.ledger.remaining / triples.ledger.budget < 1e-9
    assert "triple" in triples.details["report"] or not bought


def test_the_share_of_triples_is_kept_until_they_are_scored_if_a_large_budget_shows_their_sampling_error():
    rng = np.random.default_rng(0)
    first = rng.integers(6, size=4000)
    codes = [first, *((first + rng.integers(width, size=4000)) % 6 for width in (3, 4, 4))]
    data = pg.Dataset.from_codes(codes, dict.fromkeys("abcd", 6))
    wanted, off, share = pg.workloads.all_kway(data.domain, 3), {}, {}
    for epsilon in (1.0, 10.0):
        run = LAMP(epsilon=epsilon, delta=1e-9, backend="simulation", records=4000)
        result = run.fit(data, wanted, seed=0, progress=False)
        share[epsilon] = sum(p.share for p in result.details["measured_marginals"] if len(p.clique) == 3)
        off[epsilon] = workload_error(data, result, wanted, norm="tv", per="record")
    assert share[1.0] == 0
    assert share[10.0] > 0.4  # one part in seven if pairs are bought first
    assert off[10.0] < 0.3 * off[1.0]


def test_a_triple_is_measured_with_its_pairs_and_its_error_falls():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 20_000)
    second = np.where(rng.random(20_000) < 0.5, first, rng.integers(0, 4, 20_000))
    third = np.where(rng.random(20_000) < 0.6, (first + second) % 4, second)
    data = pg.Dataset.from_codes([first, second, third], dict.fromkeys("abc", 4))
    wanted, options = [("a", "b", "c")], {"rho": 0.05, "backend": "simulation", "records": 20_000}
    pairs, triples = (LAMP(**options).fit(data, workload, seed=0, progress=False) for workload in (None, wanted))
    assert ("a", "b", "c") in {p.clique for p in triples.details["measured_marginals"]}
    off = [
        workload_error(data, result, pg.workloads.marginals(wanted), norm="tv", per="record")
        for result in (pairs, triples)
    ]
    assert off[1] < 0.5 * off[0]


def test_ranges_change_the_measured_marginals_and_their_errors_fall():
    rng = np.random.default_rng(0)
    first = np.clip(rng.normal(32, 12, 30_000), 0, 63).astype(int)
    second = np.clip(first // 2 + rng.normal(0, 8, 30_000), 0, 63).astype(int)
    data = pg.Dataset.from_codes([first, second, first % 3], {"a": 64, "b": 64, "c": 3})
    ranges = pg.workloads.prefixes(data.domain, [("a", "b"), ("a", "c"), ("b", "c")], ["a", "b"])
    cells, told = [], []
    for seed in range(4):
        for found, workload in ((cells, None), (told, ranges)):
            result = LAMP(rho=1e-4, backend="simulation", records=20_000).fit(data, workload, seed=seed, progress=False)
            found.append(workload_error(data, result, ranges, per="answer"))
    assert np.mean(told) < 0.9 * np.mean(cells)
    assert any(len(p.clique) == 1 and 1 < p.groups[0] < 64 for p in result.details["measured_marginals"])


def test_ranges_of_one_attribute_are_answered_better_than_by_its_codes():
    ranges = pg.workloads.prefixes(CENSUS.domain, [("age",)], ["age"])
    off = {None: [], "ranges": []}
    for seed in range(5):
        for name, workload in ((None, ["age"]), ("ranges", ranges)):
            result = LAMP(rho=1e-5, backend="simulation", records=5000).fit(CENSUS, workload, seed=seed, progress=False)
            assert result.ledger.remaining / result.ledger.budget < 1e-9
            off[name].append(workload_error(CENSUS, result, ranges))
    assert np.mean(off["ranges"]) < 0.7 * np.mean(off[None])


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.0, "delta": 0}])
def test_the_audit_does_not_contradict_the_claim_of_triples_with_a_public_table(budget):
    mechanism = LAMP(**budget, backend="simulation", records=200, prior=DATA)
    workload = [("a", "b", "c")]
    assert not audit_mechanism(mechanism, workload=workload).contradicts(mechanism.budget())


@pytest.mark.parametrize(
    "workload",
    [
        [("a", "b", "c")],
        pg.workloads.random_ranges(dict.fromkeys("abcde", 4), 3, 40, seed=0),
        pg.workloads.prefixes(dict.fromkeys("abcde", 4), [("a", "b", "c"), ("d",)], ["a", "d"]),
        pg.workloads.marginals([("a", "b", "c", "d", "e")]),
        pg.workloads.marginals([("a",), ("b", "c")], [5.0, 1.0]),
        TRIPLES,
    ],
)
@pytest.mark.parametrize("rho", [1e-7, 1e-2, 1e3])
def test_any_workload_spends_the_budget_and_gives_a_model(workload, rho):
    result = LAMP(rho=rho, backend="simulation", records=2000).fit(exclusive(2000), workload, seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.project("a").values.sum() == pytest.approx(result.model.total)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "budget", [{"epsilon": 2e-3, "delta": 0}, {"epsilon": 30.0, "delta": 0}, {"rho": 1e-7}, {"rho": 100.0}]
)
def test_once_paid_for_no_table_or_budget_ends_in_an_error(seed, budget):
    """Few records and many, sizes of 1, ranges and triples, a public table: no overflow, no refusal of small parts."""
    rng = np.random.default_rng(seed)
    sizes, records = rng.choice([1, 2, 3, 7, 60], 5), int(rng.choice([1, 50, 500]))
    data = pg.Dataset.from_codes(rng.integers(0, sizes, (records, 5)), {f"a{i}": int(s) for i, s in enumerate(sizes)})
    pair = ("a0", "a1")
    workload = [None, pg.workloads.all_kway(data.domain, 3), pg.workloads.prefixes(data.domain, [pair], ["a0"])][
        seed % 3
    ]
    prior = data if seed % 2 else None
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = LAMP(**budget, records=1000, prior=prior, backend="simulation").fit(data, workload, seed=seed)
    assert np.isfinite(result.project(pair).values).all()


def test_of_binary_attributes_all_triples_are_measured_at_the_error_of_the_best_strategy():
    """Each interaction c times in the workload, the best variance of its sum is (sum of roots of c)^2 / rho / 2."""
    rng = np.random.default_rng(0)
    hidden = rng.random((20_000, 3))
    data = pg.Dataset.from_codes(
        (0.7 * hidden[:, rng.integers(0, 3, 8)] + 0.3 * rng.random((20_000, 8)) < 0.4).astype(int),
        {f"a{i}": 2 for i in range(8)},
    )
    triples = pg.workloads.all_kway(data.domain, 3)
    errors = []
    for seed in range(4):
        result = LAMP(rho=0.5, backend="simulation").fit(data, triples, seed=seed)
        assert {p.clique for p in result.details["measured_marginals"] if len(p.clique) == 3} == set(triples.cliques)
        errors.append(workload_error(data, result.model, triples))
    roots = 56 * 1 + 28 * 6**0.5 + 8 * 21**0.5 + 56**0.5
    best = (2 / np.pi) ** 0.5 * roots / 56**0.5 / 8  # of a cell, in counts: sigma is 1 for rho = 0.5
    assert 0.75 * best < np.mean(errors) < 1.25 * best  # counts of records are integers, which adds some


def test_the_number_of_records_is_measured_where_it_is_not_public_and_worth_it():
    data = exclusive(300)
    options = {"rho": 2e-3, "backend": "simulation", "records": 1000}
    bought = [LAMP(**options).fit(data, seed=seed, progress=False) for seed in range(3)]
    public = LAMP(**options, neighbors=Replace()).fit(data, seed=0, progress=False)
    assert all(() in {p.clique for p in result.details["measured_marginals"]} for result in bought)
    assert () not in {p.clique for p in public.details["measured_marginals"]}
    for result in bought:
        whole = [m for m in result.measurements if m.query is None]
        first = estimate_total(whole[:1], data.domain)
        assert estimate_total(whole, data.domain).stddev < 0.8 * first.stddev


def test_ranges_at_a_low_budget_are_no_worse_than_independence():
    """Prefix sums of a long attribute over few records: how many lie in one half is not known by the codes' counts."""
    rng = np.random.default_rng(0)
    codes = np.stack([np.minimum(rng.exponential(25, 1500), 90).astype(int), rng.integers(0, 3, 1500)], axis=1)
    data = pg.Dataset.from_codes(codes, {"long": 91, "short": 3})
    prefixes = pg.workloads.prefixes(data.domain, [("long", "short")], ["long"])
    options = {"rho": 5e-4, "backend": "simulation"}
    errors = [
        [
            workload_error(data, kind(**options).fit(data, prefixes, seed=seed, progress=False).model, prefixes)
            for seed in range(8)
        ]
        for kind in (LAMP, Independent)
    ]
    assert np.mean(errors[0]) < np.mean(errors[1])
