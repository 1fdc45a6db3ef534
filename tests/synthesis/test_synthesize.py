"""Records from tables: GUM, flows, appending, separate parts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.sampling.systematic import random_round, systematic
from pgmest.synthesis import GradualUpdate, LocalSearch, MinCostFlow, synthesize
from pgmest.synthesis.appending import _maximal, gyo_reduction
from pgmest.synthesis.gum import SCHEDULES, STEPS, capped_step, loss_rate
from pgmest.synthesis.min_cost_flow import MOST_CELLS, cheapest_moves
from pgmest.synthesis.starts import STARTS
from pgmest.synthesis.synthesize import _parts

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"]).take(slice(0, 5000))
PAIRS = [CENSUS.project(pair) for pair in itertools.combinations(CENSUS.domain, 2)]


def off(records, tables):
    """The mean total-variation error of the records in the tables."""
    return np.mean(
        [
            np.abs(records.project(t.domain).values / records.records - t.values / t.values.sum()).sum() / 2
            for t in tables
        ]
    )


@pytest.mark.parametrize("method", ["gum", "mcf"])
def test_the_error_decreases(method):
    errors = []
    tables = PAIRS if method == "gum" else [table for table in PAIRS if "age" not in table.domain]
    domain = CENSUS.domain if method == "gum" else CENSUS.domain.without(["age"])
    records = synthesize(tables, domain, 5000, method=method, seed=0, callback=lambda _, error: errors.append(error))
    assert errors[-1] < errors[0] / 3
    assert off(records, tables) < 0.02
    assert records.records == 5000


def test_one_way_tables_are_met_exactly():
    tables = [CENSUS.project((name,)) for name in CENSUS.domain]
    records = synthesize(tables, CENSUS.domain, 5000, seed=0)
    for table in tables:
        assert np.array_equal(records.project(table.domain).values, table.values)


def test_flows_meet_the_last_table_and_gum_settles_between_all():
    cycle = [CENSUS.project(pair) for pair in (("sex", "race"), ("race", "income>50K"), ("income>50K", "sex"))]
    small = CENSUS.domain.project(("sex", "race", "income>50K"))
    flows = synthesize(cycle, small, 5000, method=MinCostFlow(iterations=3), seed=0)
    worst = [np.abs(flows.project(table.domain).values - table.values).sum() for table in cycle]
    assert min(worst) == 0
    assert off(synthesize(cycle, small, 5000, seed=0), cycle) < 0.005


@pytest.mark.parametrize("cliques", [["ab", "bc", "cd"], ["abc", "bcd"], ["ab", "ac", "ad", "a"], ["ab", "cd"]])
def test_tables_along_a_junction_tree_are_met_up_to_rounding(cliques):
    domain = pg.Domain({"a": 3, "b": 2, "c": 4, "d": 2})
    rng = np.random.default_rng(0)
    joint = pg.Factor(domain, rng.gamma(1.0, size=domain.shape)).normalize(100_000)
    tables = [joint.project(tuple(clique)) for clique in cliques]
    records = synthesize(tables, domain, 100_000, seed=0)
    assert off(records, tables) < 1e-3
    model = pg.estimate([pg.LinearMeasurement(t.values, t.domain.attributes) for t in tables], domain, tolerance=1e-9)
    independent = model.project(tuple("abcd")).values
    sampled = records.project(tuple("abcd")).values
    assert np.abs(sampled - independent).sum() / 2e5 < 0.01  # a sample of 100,000 from 48 cells: 0.0087 at most


def test_parts_that_share_nothing_are_independent():
    domain = pg.Domain({name: 2 for name in "abcdef"})
    odd = pg.Factor({"a": 2, "b": 2, "c": 2}, np.array([9, 1, 1, 9, 1, 9, 9, 1]).reshape(2, 2, 2) * 100.0)
    tables = [odd.project(pair) + np.eye(2) * 500 for pair in (("a", "b"), ("b", "c"), ("a", "c"))]
    again = [
        pg.Factor(dict(zip(pair, (2, 2), strict=True)), t.values)
        for t, pair in zip(tables, ("de", "ef", "df"), strict=True)
    ]
    records = synthesize(tables + again, domain, 20_000, seed=0)
    assert off(records, tables + again) < 0.01
    across = records.project(("a", "d")).values / 20_000
    assert across == pytest.approx(0.25, abs=0.02)


def test_attributes_in_no_table_are_uniform():
    records = synthesize([pg.Factor({"a": 2}, [3, 1])], {"a": 2, "z": 5}, 100, seed=0)
    assert records.project("z").values.tolist() == [20] * 5
    assert records.project("a").values.tolist() == [75, 25]


@given(st.lists(st.sampled_from(["ab", "bc", "ca", "cd", "de", "abc", "f", "ef"]), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_peeling_keeps_every_attribute_once(cliques):
    core, appended = gyo_reduction([tuple(clique) for clique in cliques])
    kept = {name for clique, _ in core for name in clique}
    added = [step.attribute for step in appended]
    assert sorted([*kept, *added]) == sorted(set("".join(cliques)))
    for position, step in enumerate(appended):  # what it is drawn given is there already
        assert set(step.given) <= kept | set(added[:position])
        assert set(step.given) | {step.attribute} <= set(cliques[step.table])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=8), st.integers(0, 50), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_systematic_rounding(weights, n, seed):
    found = systematic(np.array(weights), n, np.random.default_rng(seed))
    expected = n * np.array(weights) / sum(weights) if any(weights) else np.full(len(weights), n / len(weights))
    assert found.sum() == n
    assert (np.abs(found - expected) < 1 + 1e-6).all()
    assert (found >= 0).all()


def test_random_rounding_is_unbiased():
    found = random_round(np.full(40_000, 2.25), np.random.default_rng(0))
    assert set(found) == {2, 3}
    assert found.mean() == pytest.approx(2.25, abs=0.01)


@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_the_cheapest_moves_change_as_few_codes_as_a_transport_of_all_pairs(attributes):
    from scipy.optimize import linprog

    rng = np.random.default_rng(attributes)
    cells = np.array(list(itertools.product(*(range(3) for _ in range(attributes)))))
    rng.shuffle(cells)
    over, under = cells[: len(cells) // 2], cells[len(cells) // 2 :]
    supply, demand = rng.integers(1, 5, len(over)), np.ones(len(under), dtype=int)
    demand[0] += max(0, supply.sum() - demand.sum())
    supply[0] += max(0, demand.sum() - supply.sum())
    sources, goals = cheapest_moves(over, supply, under, demand)
    assert np.bincount(sources, minlength=len(over)).tolist() == supply.tolist()
    assert np.bincount(goals, minlength=len(under)).tolist() == demand.tolist()
    cost = (over[:, None, :] != under[None]).sum(axis=2)
    out = np.repeat(np.eye(len(over)), len(under), axis=1)
    into = np.tile(np.eye(len(under)), len(over))
    best = linprog(cost.reshape(-1), A_eq=np.vstack([out, into]), b_eq=np.concatenate([supply, demand])).fun
    assert (over[sources] != under[goals]).sum() == pytest.approx(best)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_alpha_by_each_schedule(schedule):
    gum = GradualUpdate(schedule=schedule, alpha=0.8, decay=0.5, period=2)
    expected = {
        "step": [0.8, 0.8, 0.4, 0.4],
        "exponential": [0.8 * np.exp(-0.5 * t) for t in range(4)],
        "linear": [0.8, 0.8 / 1.5, 0.4, 0.32],
        "square_root": [0.8 / np.sqrt(1 + 0.5 * t) for t in range(4)],
    }[schedule]
    assert [gum.alpha_of(t) for t in range(4)] == pytest.approx(expected)


def test_the_published_step_by_the_papers_example():
    # DPSyn Figure 4: cells of 0, 0, 4 and 1 records where 0, 0, 1 and 4 are wanted; alpha = 2 makes beta 0.5.
    counts, wanted = np.array([0, 0, 4, 1]), np.array([0, 0, 1, 4])
    gains, losses = capped_step(wanted - counts, counts, 2.0, np.random.default_rng(0))
    assert gains.tolist() == [0, 0, 0, 2]
    assert losses.tolist() == [0, 0, 2, 0]
    assert loss_rate(np.array([0, 0, 3, 0]), counts, 2) == 0.5
    # a cell without records gains nothing, and one with few at most alpha times as many
    gains, _ = capped_step(np.array([6, 3, -9]), np.array([0, 10, 20]), 0.2, np.random.default_rng(0))
    assert gains.tolist() == [0, 2, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.floats(0, 1))
def test_losses_take_the_same_share_of_every_cell_or_all_of_its_excess(cells, share):
    counts = np.array([have for have, _ in cells])
    excess = np.minimum(counts, [more for _, more in cells])
    moved = round(share * excess.sum())
    beta = loss_rate(excess, counts, moved)
    assert np.minimum(excess, beta * counts).sum() == pytest.approx(moved)


@pytest.mark.parametrize("step", ["proportional", "capped"])
def test_what_cells_gain_others_lose_and_no_more_than_their_excess(step):
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(0, 20, 12)
        wanted = rng.permutation(counts)
        gains, losses = STEPS[step](wanted - counts, counts, 0.7, rng)
        assert gains.sum() == losses.sum()
        assert (gains <= np.maximum(wanted - counts, 0)).all()
        assert (losses <= np.maximum(counts - wanted, 0)).all()


def test_copies_are_preferred_in_the_end():
    gum = GradualUpdate.as_published(iterations=5)
    assert [gum.duplicate_of(t) for t in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert (gum.alpha, gum.step, gum.schedule) == (0.2, "capped", "step")
    assert GradualUpdate.as_published(iterations=1).duplicate_of(0) == 0.0


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_the_published_form_comes_closer_with_every_schedule(schedule):
    errors = []
    gum = GradualUpdate.as_published(schedule=schedule, decay=0.5 if schedule == "step" else 0.05)
    records = synthesize(PAIRS, CENSUS.domain, 5000, method=gum, seed=0, callback=lambda _, e: errors.append(e))
    assert errors[-1] < 0.75 * errors[0]
    assert records.records == 5000


def test_seeds_reproduce():
    first, second, other = (synthesize(PAIRS, CENSUS.domain, 500, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (GradualUpdate, {"iterations": 0}, "iterations=0"),
        (GradualUpdate, {"alpha": 1.5}, r"alpha=1\.5"),
        (GradualUpdate, {"duplicate": -0.1}, r"duplicate=-0\.1"),
        (GradualUpdate, {"last_duplicate": 1.1}, r"last_duplicate=1\.1"),
        (GradualUpdate, {"schedule": "cosine"}, "schedule='cosine'"),
        (GradualUpdate, {"step": "full"}, "step='full'"),
        (MinCostFlow, {"iterations": 0}, "iterations=0"),
    ],
)
def test_parameters_out_of_range_are_refused(kind, parameters, message):
    with pytest.raises(ArgumentError, match=message):
        kind(**parameters)


def test_arguments_that_cannot_be_are_refused():
    with pytest.raises(ArgumentError, match="method='gumm'"):
        synthesize(PAIRS, CENSUS.domain, 10, method="gumm")
    with pytest.raises(ArgumentError, match="n=-1"):
        synthesize(PAIRS, CENSUS.domain, -1)
    with pytest.raises(UnknownAttributeError):
        synthesize(PAIRS, {"age": 85}, 10)
    wide = [pg.Factor({a: 600, b: 600}, np.eye(600) + 1e-3) for a, b in itertools.combinations("abc", 2)]
    with pytest.raises(ArgumentError, match="for method 'mcf'"):
        synthesize(wide, {name: 600 for name in "abc"}, 4 * MOST_CELLS, method="mcf", seed=0)


def test_no_records_are_fine():
    assert synthesize(PAIRS, CENSUS.domain, 0, seed=0).records == 0


def test_a_tree_of_tables_is_a_nearer_start_than_independent_attributes():
    found = {
        name: off(
            pg.Dataset.from_codes(start(PAIRS, CENSUS.domain, 5000, np.random.default_rng(0)), CENSUS.domain), PAIRS
        )
        for name, start in STARTS.items()
    }
    assert found["tree"] < 0.7 * found["independent"]


@pytest.mark.parametrize("n", [0, 1, 37])
def test_a_tree_start_takes_any_tables(n):
    """Empty and negative tables, larger ones, several parts, sizes of one."""
    domain = pg.Domain({"a": 2, "b": 3, "c": 1, "d": 2})
    rng = np.random.default_rng(0)
    tables = [
        pg.Factor(domain.project(c), rng.normal(size=domain.project(c).shape))
        for c in map(tuple, ("ab", "bc", "ca", "da"))
    ]
    tables += [pg.Factor.zeros(domain.project(("b", "d")))]
    records = synthesize(tables, domain, n, method=LocalSearch(sweeps=2), seed=0)
    assert records.records == n


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=4, unique=True), max_size=8))
def test_maximal_cliques_are_those_inside_no_other(cliques):
    left = [(tuple(clique), place) for place, clique in enumerate(cliques)]
    expected = [
        (clique, place)
        for clique, place in left
        if clique
        and not any(
            set(clique) < set(other) or (set(clique) == set(other) and number < place) for other, number in left
        )
    ]
    assert _maximal(left) == expected


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True).map(tuple), max_size=12))
def test_parts_share_no_attribute_and_cannot_be_split(cliques):
    parts = _parts(cliques)
    assert sorted(itertools.chain(*parts)) == list(range(len(cliques)))
    names = [set().union(*(cliques[position] for position in part)) for part in parts]
    assert all(not one & other for one, other in itertools.combinations(names, 2))
    for part, inside in zip(parts, names, strict=True):
        reached = set(cliques[part[0]])
        for _ in part:
            reached.update(*(cliques[k] for k in part if reached & set(cliques[k])))
        assert reached == inside
    assert [part[-1] for part in parts] == sorted(part[-1] for part in parts)
