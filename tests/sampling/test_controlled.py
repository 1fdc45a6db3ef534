"""Controlled rounding: records hold exact answers wherever whole numbers can, and miss them by the least elsewhere."""

import warnings
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

import pgmest as pg
from pgmest.sampling import parts, repair
from pgmest.sampling.facts import Facts, UnmetFactsWarning, exact_facts, held_facts
from pgmest.sampling.sampler import Sampler
from pgmest.tables.domain import Domain
from pgmest.tables.factor import Factor


@st.composite
def models_with_facts(draw):
    """Sizes, potentials with impossible cells, a table of whole numbers, and exact answers about its margins."""
    sizes = {name: draw(st.integers(1, 4)) for name in "abcde"[: draw(st.integers(2, 5))]}
    names = list(sizes)
    cliques = draw(st.lists(st.permutations(names).map(lambda order: tuple(order[:2])), min_size=1, max_size=5))
    cliques = list(dict.fromkeys(cliques)) + [tuple(names[:3])] * draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    theta = {}
    for clique in dict.fromkeys(cliques):
        table = rng.normal(0.0, 1.0, [sizes[name] for name in clique])
        table[rng.random(table.shape) < draw(st.sampled_from([0.0, 0.3]))] = -np.inf
        table[(0,) * len(clique)] = 0.0
        theta[clique] = table
    return sizes, list(theta), theta, rng, draw(st.sampled_from([4, 30, 300]))


def some_facts(rng, model, truth, count, error=0.0):
    """Return exact answers about cliques of the tree: tables, tables with gaps, and arbitrary sums of cells."""
    made = []
    for _ in range(count):
        clique = model.oracle.plan.tree.cliques[rng.integers(len(model.oracle.plan.tree.cliques))]
        names = tuple(str(name) for name in rng.permutation(list(clique))[: rng.integers(1, len(clique) + 1)])
        table, kind = truth.project(names).values, rng.integers(3)
        table = table + error * rng.integers(-2, 3, table.shape) / 2
        if kind == 0:
            made.append(pg.LinearMeasurement.between(table, table, names))  # also negative counts, which no table has
        elif kind == 1:
            gaps = rng.random(table.shape) < 0.5
            low, high = np.where(gaps, 0.0, table), np.where(gaps, np.inf, table)
            made.append(pg.LinearMeasurement.between(np.minimum(low, high), high, names))
        else:
            query = (rng.random((2, table.size)) < 0.5).astype(float)
            made.append(pg.LinearMeasurement.exact(query @ table.reshape(-1), names, query))
    return made


def with_facts(calibrated, arguments, count, **options):
    """Return a model, facts of a table of whole numbers drawn from it, and the number of records."""
    sizes, cliques, theta, rng, n = arguments
    model = calibrated(sizes, cliques, theta)
    joint = model.joint
    truth = Factor(model.domain, rng.multinomial(n, joint.values.reshape(-1)).reshape(joint.values.shape))
    return model, some_facts(rng, model, truth, count, **options), n


def misses(measurements, data):
    """Return by how much records miss each exact answer."""
    exact = [m for m in measurements if m.exact_rows.any()]
    off = [np.abs(m.answer(data.project(m.clique)) - m.low)[m.exact_rows] for m in exact]
    return np.concatenate([np.zeros(0), *off])


def least_miss(model, measurements, n):
    """Return the least sum of misses of any table of n records without impossible ones, by an integer program."""
    cells = model.domain.size(model.domain)
    numbered = Factor(model.domain, np.arange(cells).reshape(model.domain.shape))
    rows = [np.ones((1, cells))]
    wanted = [[float(n)]]
    for m in measurements:
        axes = {name: place for place, name in enumerate(model.domain)}
        codes = np.indices(numbered.values.shape).reshape(len(axes), -1)
        cell = np.zeros(cells, dtype=int)
        for name in m.clique:
            cell = cell * model.domain[name] + codes[axes[name]]
        query = np.eye(m.rows) if m.query is None else m.query.matrix()
        rows.append(query[m.exact_rows][:, cell])
        wanted.append(m.low[m.exact_rows])
    matrix, values = np.concatenate(rows), cast(Any, np.concatenate(wanted))
    facts = len(values) - 1
    slack = np.concatenate([np.zeros((1, facts)), np.eye(facts)])
    most = np.where(model.joint.values.reshape(-1) > 0, np.inf, 0.0)
    anything: Any = np.concatenate([most, np.full(2 * facts, np.inf)])
    found = milp(
        np.concatenate([np.zeros(cells), np.ones(2 * facts)]),
        integrality=np.repeat([1, 0], [cells, 2 * facts]),
        constraints=LinearConstraint(np.concatenate([matrix, slack, -slack], axis=1), values, values),
        bounds=Bounds(0.0, anything),
    )
    return found.fun


@settings(max_examples=150, deadline=None)
@given(models_with_facts(), st.integers(1, 5), st.integers(0, 10**6))
def test_facts_of_a_table_of_whole_numbers_hold(calibrated, arguments, count, seed):
    """The model is another one than the facts come from, which is harder than a model that was fitted to them."""
    model, measurements, n = with_facts(calibrated, arguments, count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = Sampler(model.oracle, exact_facts(measurements), n).draw(n, seed=seed)
    assert data.records == n
    assert misses(measurements, data).max(initial=0.0) == 0
    assert (data.project(model.domain).values[model.joint.values == 0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(models_with_facts(), st.integers(1, 3), st.integers(0, 10**6))
def test_facts_that_whole_numbers_cannot_hold_are_missed_by_the_least(calibrated, arguments, count, seed):
    model, measurements, n = with_facts(calibrated, arguments, count, error=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = Sampler(model.oracle, exact_facts(measurements), n).draw(n, seed=seed)
    missed, least = misses(measurements, data).sum(), least_miss(model, measurements, n)
    assert missed == pytest.approx(least, abs=1e-6)
    assert bool(caught) == (missed > 0)
    assert (data.project(model.domain).values[model.joint.values == 0] == 0).all()


def test_records_move_between_parts_where_facts_of_one_part_are_missed(calibrated):
    """The last cell is a part of its own. Only with a record from it can the other facts be missed by the least."""
    model = calibrated({"a": 4}, ["a"], {("a",): np.zeros(4)})
    query = np.array([[1.0, 0.0, 1.0, 0.0]] * 2)
    measurements = [
        pg.LinearMeasurement.exact([16.0, 16.0], "a", query),
        pg.LinearMeasurement.between([6.5, 0.0, 0.0, 15.0], [6.5, np.inf, np.inf, 15.0], "a"),
    ]
    with pytest.warns(UnmetFactsWarning):
        data = Sampler(model.oracle, exact_facts(measurements), 30).draw(30, seed=0)
    assert misses(measurements, data).sum() == least_miss(model, measurements, 30) == 1.5


def totals_and_tables(records=400, states=8, others=4):
    """Return exact totals of states, and exact totals of an attribute in another clique, beside noisy tables."""
    rng = np.random.default_rng(0)
    state = rng.integers(0, states, records)
    rest = [(state + rng.integers(0, 5, records)) % 4 for _ in range(others)]
    made = [
        pg.LinearMeasurement.exact(np.bincount(state, minlength=states), "state"),
        pg.LinearMeasurement.exact(np.bincount(rest[-1], minlength=4), f"x{others - 1}"),
    ]
    chain = [state, *rest]
    names = ["state", *(f"x{i}" for i in range(others))]
    for place in range(others):
        table = np.zeros((states if place == 0 else 4, 4))
        np.add.at(table, (chain[place], chain[place + 1]), 1)
        noisy = table + rng.normal(0.0, 1.0, table.shape)
        made.append(pg.LinearMeasurement(noisy, (names[place], names[place + 1]), 1.0))
    return made, dict(zip(names, [states] + [4] * others, strict=True))


@pytest.fixture(scope="module")
def chain():
    measurements, domain = totals_and_tables()
    return pg.estimate(measurements, domain, total=400), measurements


def test_facts_at_both_ends_of_a_chain(chain):
    model, measurements = chain
    for seed in range(5):
        assert misses(measurements[:2], model.sample(seed=seed)).max() == 0


def test_tables_stay_as_close_to_the_model_as_without_facts(chain):
    model, _ = chain
    plain = pg.Model(model.potentials, model.total, facts=())
    off = {}
    for one in (model, plain):
        differences = [
            np.abs(one.sample(seed=seed).project(clique).values - model.project(clique).values).max()
            for clique in model.cliques
            for seed in range(10)
        ]
        off[one is plain] = np.mean(differences)
    assert off[False] < 1.3 * off[True]


def test_all_batches_together_hold_the_facts(chain):
    model, measurements = chain
    batches = list(model.sample_batches(batch=70, seed=1))
    assert [batch.records for batch in batches] == [70] * 5 + [50]
    for measurement in measurements[:2]:
        found = np.sum([batch.project(measurement.clique).values for batch in batches], axis=0)
        assert found.tolist() == measurement.low.tolist()


def test_another_number_of_records_scales_the_facts(chain):
    model, measurements = chain
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = model.sample(90, seed=0)
    for measurement in measurements[:2]:
        assert np.abs(data.project(measurement.clique).values - measurement.low * 90 / 400).max() < 1


def test_no_records(chain):
    assert chain[0].sample(0).records == 0


def test_what_whole_numbers_cannot_hold_is_said():
    model = pg.estimate([pg.LinearMeasurement.exact([2.5, 7.5], "a")], {"a": 2}, total=10)
    with pytest.warns(UnmetFactsWarning, match="2 exact answers do not hold in the 10 synthetic"):
        data = model.sample(seed=0)
    assert sorted(data.project("a").values.tolist()) in ([2, 8], [3, 7])


@pytest.mark.parametrize("values", [[-3, 13], [1e15, 10], [0, 0], [-0.0, 10], [-1e9, -1e9]])
def test_facts_that_no_counts_meet_leave_possible_counts(values):
    fact = (
        pg.LinearMeasurement.between(values, values, "a"),
        pg.LinearMeasurement.exact([[5, 0], [0, 5]], ("a", "b")),
    )
    model = pg.Model(pg.CliqueVector.zeros({"a": 2, "b": 2}, [("a", "b")]), 10, measurements=fact)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = model.sample(seed=0)
    assert data.records == 10
    assert caught
    assert misses(fact, data).sum() <= sum(abs(np.array(values) - [5, 5])) + 1e-6 * max(map(abs, values))


def test_fractions_hold_up_to_rounding():
    """Control totals with decimals are common; the counts are the whole numbers around them."""
    rng = np.random.default_rng(3)
    sizes = {"a": 5, "b": 4, "c": 6}
    totals = {name: rng.dirichlet(np.ones(size)) * 200 for name, size in sizes.items()}
    facts = [pg.LinearMeasurement.exact(values, name) for name, values in totals.items()]
    noisy = pg.LinearMeasurement(rng.random((5, 4, 6)), ("a", "b", "c"), 50.0)
    model = pg.estimate([*facts, noisy], sizes, total=200)
    with pytest.warns(UnmetFactsWarning, match="15 exact answers do not hold in the 200 .* off by 0[.]"):
        data = model.sample(seed=0)
    assert misses(facts, data).max() < 1


def test_the_warning_is_shown_where_records_are_drawn():
    model = pg.estimate([pg.LinearMeasurement.exact([2.5, 7.5], "a")], {"a": 2}, total=10)
    for draw in (model.sample, model.sample_batches):
        with pytest.warns(UnmetFactsWarning) as caught:
            draw(seed=0)
        assert caught[0].filename == __file__


def test_facts_about_no_table_of_the_model_are_named(calibrated):
    model = calibrated({"a": 2, "b": 2, "c": 2}, ["ab", "bc"])
    fact = exact_facts([pg.LinearMeasurement.exact([[1, 2], [3, 4]], ("a", "c"))])
    with pytest.warns(UnmetFactsWarning, match="records may miss exact answers about a x c, because no table"):
        Sampler(model.oracle, fact, 10).draw(10)


def test_independent_records_do_not_regard_facts(chain):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain[0].sample(method="multinomial", seed=0)


def test_a_model_without_facts_draws_what_it_always_drew(chain):
    model, _ = chain
    plain = pg.Model(model.potentials, model.total, facts=())
    noisy = tuple(m for m in model.measurements if m.noisy)
    assert (
        plain.sample(seed=3).codes == pg.Model(model.potentials, 400, measurements=noisy).sample(seed=3).codes
    ).all()


def margins_of_all(sizes, records):
    """Return exact totals of all attributes beside noisy tables whose tree has cliques of three."""
    rng = np.random.default_rng(1)
    columns = [rng.choice(size, records, p=rng.dirichlet(np.ones(size))) for size in sizes.values()]
    for place in range(1, len(columns)):
        same = (rng.random(records) < 0.4) & (columns[place - 1] < list(sizes.values())[place])
        columns[place][same] = columns[place - 1][same]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), sizes)
    made = [pg.LinearMeasurement.exact(data.project(name).values, name) for name in sizes]
    for pair in ("ab", "bc", "ac", "cd", "de", "ce"):
        table = data.project(tuple(pair)).values
        made.append(pg.LinearMeasurement(table + rng.normal(0.0, 2.0, table.shape), tuple(pair), 2.0))
    return made


@pytest.mark.parametrize("records", [40, 3000])
def test_exact_totals_of_all_attributes_hold_beside_noisy_tables(records):
    """Three families of totals in one clique have no common flow network."""
    sizes = dict(zip("abcde", (7, 9, 6, 8, 5), strict=True))
    measurements = margins_of_all(sizes, records)
    model = pg.estimate(measurements, sizes, total=records)
    plain = pg.Model(model.potentials, model.total, facts=())
    assert misses(measurements, plain.sample(seed=0)).max() > 0
    for seed in range(5):
        data = model.sample(seed=seed)
        assert misses(measurements, data).max() == 0
        for clique in model.junction_tree.cliques:
            assert np.abs(data.project(clique).values - model.project(clique).values).max() < 3


@pytest.mark.parametrize("seed", range(3))
def test_attempts_with_few_classes_of_cells_hold_facts_and_change_little(monkeypatch, seed):
    sizes = dict(zip("abcde", (7, 9, 6, 8, 5), strict=True))
    measurements = margins_of_all(sizes, 300)
    model = pg.estimate(measurements, sizes, total=300)
    monkeypatch.setattr(repair, "ATTEMPTS", ((100, 1.0), (1 << 14, np.inf)))
    data = model.sample(seed=seed)
    assert misses(measurements, data).max() == 0
    for clique in model.junction_tree.cliques:
        assert np.abs(data.project(clique).values - model.project(clique).values).max() < 4


@settings(max_examples=60, deadline=None)
@given(models_with_facts(), st.integers(1, 3), st.integers(0, 10**6))
def test_bounds_that_a_table_of_whole_numbers_meets_hold(calibrated, arguments, count, seed):
    """Bounds from below and above, on cells, on sums and on differences of sums, beside exact answers."""
    sizes, cliques, theta, rng, n = arguments
    model = calibrated(sizes, cliques, theta)
    joint = model.joint
    truth = Factor(model.domain, rng.multinomial(n, joint.values.reshape(-1)).reshape(joint.values.shape))
    measurements = some_facts(rng, model, truth, 1)
    for _ in range(count):
        clique = model.oracle.plan.tree.cliques[rng.integers(len(model.oracle.plan.tree.cliques))]
        table = truth.project(clique).values
        query = None if rng.random() < 0.3 else rng.integers(-1, 2, (2, table.size)).astype(float)
        answers = table.reshape(-1) if query is None else query @ table.reshape(-1)
        bound = pg.LinearMeasurement.at_least if rng.random() < 0.5 else pg.LinearMeasurement.at_most
        measurements.append(bound(answers, clique, query))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = Sampler(model.oracle, held_facts(measurements), n).draw(n, seed=seed)
    assert data.records == n
    for m in measurements:
        answers = m.answer(data.project(m.clique))
        assert (answers >= m.low).all()
        assert (answers <= m.high).all()
    assert (data.project(model.domain).values[model.joint.values == 0] == 0).all()


def zone_margins(rng, zones, sizes, records, error=0):
    """Return exact margins of a table by zone, perhaps wrong ones, and a noisy table that joins all attributes."""
    domain = Domain({"zone": zones, **sizes})
    columns = [rng.choice(size, records, p=rng.dirichlet(np.ones(size))) for size in domain.shape]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), domain)
    made = []
    for name in sizes:
        table = data.project(("zone", name)).values
        if error:
            table = np.maximum(
                table + rng.integers(-error, error + 1, table.shape) * (rng.random(table.shape) < 0.1), 0
            )
        made.append(pg.LinearMeasurement.exact(table, ("zone", name)))
    joint = data.project(tuple(sizes)).values
    return domain, made, pg.LinearMeasurement(joint + rng.normal(0.0, 3.0, joint.shape), tuple(sizes), 3.0)


def test_four_margins_by_zone_hold_zone_by_zone(monkeypatch):
    """The margins of a zone are no matter of another one, so no integer program has the cells of two zones."""
    domain, exact, noisy = zone_margins(np.random.default_rng(0), 20, {"a": 4, "b": 5, "c": 3, "d": 3}, 2000)
    model, cells = pg.estimate([*exact, noisy], domain), []

    def counted(tables, facts, generator):
        cells.append(sum(table.number for table in tables))
        return repair.repair(tables, facts, generator)

    monkeypatch.setattr(parts, "repair", counted)
    assert misses(exact, model.sample(seed=0)).max() == 0
    assert cells
    assert max(cells) <= 4 * 5 * 3 * 3


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0, 1, 3]), st.sampled_from([1, 20, 200]))
def test_margins_by_zone_are_missed_by_the_least(calibrated, seed, zones, error, records):
    rng = np.random.default_rng(seed)
    sizes = {name: int(rng.integers(1, 4)) for name in "abcd"[: rng.integers(2, 5)]}
    domain, exact, _ = zone_margins(rng, zones, sizes, records, error)
    table = rng.normal(0.0, 1.0, domain.shape)
    table[rng.random(domain.shape) < rng.choice([0.0, 0.3])] = -np.inf
    table.flat[0] = 0.0
    model = calibrated(dict(domain), [tuple(domain)], {tuple(domain): table})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = Sampler(model.oracle, exact_facts(exact), records).draw(records, seed=seed)
    assert data.records == records
    assert misses(exact, data).sum() == pytest.approx(least_miss(model, exact, records), abs=1e-6)
    assert (data.project(domain).values[model.joint.values == 0] == 0).all()


# -- what facts say about margins -------------------------------------------------------------------------------------


def test_a_margin_of_a_whole_table_is_known():
    domain = Domain({"a": 2, "b": 3})
    (facts,) = exact_facts([pg.LinearMeasurement.exact([[1, 2, 3], [4, 5, 6]], ("a", "b"))])
    margin = facts.margin(domain, "b")
    assert (margin.clique, margin.values.tolist(), margin.groups.tolist()) == (("b",), [5, 7, 9], [0, 1, 2])
    assert facts.margin(domain, "ab") is facts
    assert facts.margin(domain, "c") is None


def test_only_margins_without_gaps_are_known():
    domain = Domain({"a": 2, "b": 3})
    table = [[7, 8, np.nan], [4, 5, 6]]
    (facts,) = exact_facts([pg.LinearMeasurement.suppressed(table, ("a", "b"), 4)])
    assert facts.margin(domain, "a").groups.tolist() == [-1, 0]
    assert facts.margin(domain, "a").values.tolist() == [15]
    assert facts.margin(domain, "b").groups.tolist() == [0, 1, -1]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_margins_of_groups_follow_from_them(seed):
    """A margin's row is a sum of rows of the facts, cell by cell."""
    rng, domain = np.random.default_rng(seed), Domain({"a": 2, "b": 3, "c": 2})
    groups = rng.integers(-1, rng.integers(1, 12), 12)
    rows = np.unique(groups[groups >= 0])
    query = (groups == rows[:, None]).astype(float)
    if not rows.size:
        return
    table = rng.integers(0, 9, 12).astype(float)
    facts = Facts.of(pg.LinearMeasurement.exact(query @ table, ("c", "a", "b"), query))
    kept = tuple("abc"[: rng.integers(1, 3)])
    margin = facts.margin(domain, kept)
    sums = Factor(Domain({"c": 2, "a": 2, "b": 3}), table.reshape(2, 2, 3)).project(
        tuple(n for n in "cab" if n in kept)
    )
    if margin is not None:
        assert (margin.matrix @ sums.datavector()).tolist() == margin.values.tolist()
    known = set() if margin is None else set(np.flatnonzero(margin.groups >= 0).tolist())
    axes = [place for place, name in enumerate("cab") if name not in kept]
    for cell in range(sums.values.size):
        unit = np.zeros(sums.values.size)
        unit[cell] = 1.0
        wide = np.broadcast_to(np.expand_dims(unit.reshape(sums.values.shape), axes), (2, 2, 3)).reshape(-1)
        inside = [set(np.flatnonzero(row)) <= set(np.flatnonzero(wide)) for row in query]
        covered = query[inside].sum(axis=0)
        assert (cell in known) == bool((covered >= wide).all())


def test_an_attribute_that_determines_another_stands_for_it():
    domain = Domain({"county": 4, "state": 2, "sex": 2})
    functions = {"state": ("county", np.array([0, 0, 1, 1]))}
    (facts,) = exact_facts([pg.LinearMeasurement.exact([[1, 2], [3, 4]], ("state", "sex"))])
    moved = facts.substituted(domain, functions, [("county", "sex"), ("county", "state")])
    assert moved.clique == ("county", "sex")
    assert (moved.matrix @ np.arange(8)).tolist() == [0 + 2, 1 + 3, 4 + 6, 5 + 7]
    assert facts.substituted(domain, functions, [("state", "sex")]) is facts


def test_a_model_without_records_has_no_counts_to_scale():
    model = pg.Model(pg.CliqueVector.zeros({"a": 2}, ["a"]), 0, measurements=(pg.LinearMeasurement.exact([0, 0], "a"),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (model.sample().records, model.sample(5).records) == (0, 5)
