"""Exact answers stay with a model: in its files and pickles, and in the records of a support."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import pgmest as pg
from pgmest import queries
from pgmest._base.npz import opened_archive, write_archive
from pgmest.errors import FileFormatError
from pgmest.inference.support.support import Support
from pgmest.models.support import SupportModel
from pgmest.sampling import controlled
from pgmest.sampling.facts import UnmetFactsWarning
from tests.sampling.test_controlled import misses

DOMAIN = {"a": 4, "b": 3, "c": 2}
TABLE = np.array([[3, 1, 0, 2, 5, 5], [1, 1, 7, 0, 2, 3], [4, 4, 1, 6, 0, 1], [2, 2, 2, 2, 1, 9]]).reshape(4, 3, 2)


def measured():
    """Return exact answers of each form, beside a noisy table."""
    ab, rng = TABLE.sum(axis=2), np.random.default_rng(0)
    return [
        pg.LinearMeasurement.exact(ab.sum(axis=1), "a"),
        pg.LinearMeasurement.suppressed(np.where(ab.T < 5, np.nan, ab.T), ("b", "a"), 5),
        pg.LinearMeasurement.exact([TABLE[:, 0].sum()], "b", [[1, 0, 0]]),
        pg.LinearMeasurement.exact(np.cumsum(TABLE.sum(axis=(1, 2))), "a", queries.prefix(4)),
        pg.LinearMeasurement.exact([TABLE[0].sum()], "a", sparse.linalg.aslinearoperator(np.eye(4)[:1])),
        pg.LinearMeasurement(TABLE.sum(axis=0) + rng.normal(0, 1, (3, 2)), ("b", "c"), 1.0),
    ]


def test_loaded_and_unpickled_models_draw_the_same_records(tmp_path):
    measurements = measured()
    model = pg.estimate(measurements, DOMAIN, total=TABLE.sum())
    expected = model.sample(seed=1)
    assert misses(measurements, expected).max() == 0
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    loaded.save(tmp_path / "again.npz")
    for other in (loaded, pg.load(tmp_path / "again.npz"), pickle.loads(pickle.dumps(model))):
        assert other.sample(seed=1) == expected
    assert sum(len(one.values) for one in loaded.facts) == sum(m.exact_rows.sum() for m in measurements)


def test_a_file_with_noisy_measurements_keeps_facts_besides(tmp_path):
    noisy = pg.estimate([m for m in measured() if m.noisy], DOMAIN, total=TABLE.sum())
    facts = pg.estimate(measured()[:1], DOMAIN, total=TABLE.sum()).held_facts()
    model = pg.Model(
        noisy.potentials, noisy.total, noisy.report, None, noisy.measurements, noisy.plan, noisy.refit, facts=facts
    )
    model.save(tmp_path / "model.npz")
    loaded = pg.load(tmp_path / "model.npz")
    assert loaded.refit is not None
    assert misses(measured()[:1], loaded.sample(seed=0)).max() == 0


def test_facts_about_an_attribute_that_the_tree_replaces_by_another_one(tmp_path):
    """A state is a function of its county, so the tree has county x year for the measured state x year."""
    rng = np.random.default_rng(0)
    county, year = rng.integers(0, 20, 900), rng.integers(0, 4, 900)
    state_of = np.concatenate([np.arange(4), rng.integers(0, 4, 16)])
    domain = {"county": 20, "state": 4, "sex": 2, "year": 4}
    columns = [county, state_of[county], rng.integers(0, 2, 900), year]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), domain)
    exact = pg.LinearMeasurement.exact(data.project(("state", "year")).values, ("state", "year"))
    noisy = [
        pg.LinearMeasurement(data.project(clique).values + rng.normal(0, 1, data.project(clique).values.shape), clique)
        for clique in (("county", "sex"), ("county", "year"), ("sex", "year"))
    ]
    rules = [pg.zeros.function("state", of="county", codes=state_of)]
    model = pg.estimate([exact, *noisy], domain, structural_zeros=rules)
    assert not any({"state", "year"} <= set(clique) for clique in model.junction_tree.cliques)
    model.save(tmp_path / "model.npz")
    for other in (model, pg.load(tmp_path / "model.npz")):
        records = other.sample(seed=0)
        assert misses([exact], records).max() == 0
        assert (state_of[records.column("county")] == records.column("state")).all()


def with_facts(path, **changes):
    """Change the entries of the exact answers in a file; None leaves an entry out."""
    with opened_archive(path, "a model file", "") as archive:
        tree = archive.with_arrays(archive.header("pgmest-model", 1))
    (fact,) = tree["facts"]
    kept = {name: value for name, value in (fact | changes).items() if value is not None}
    write_archive(path, tree | {"facts": [kept]})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"values": None}, "its header lacks 'values'"),
        ({"values": np.full(4, np.nan)}, "its exact answers are not finite"),
        ({"values": np.ones(3)}, "exceeds"),
        ({"values": [1.0] * 4}, "one-dimensional array of float64"),
        ({"weight": np.full(4, np.inf)}, "its exact answers are not finite"),
        ({"weight": np.ones(5)}, "or a damaged one"),
        ({"column": np.arange(4) + 9}, "exceeds"),
        ({"column": np.arange(4) - 1}, "negative"),
        ({"row": np.ones(4)}, "or a damaged one"),
        ({"row": np.array([0, 1, 2, 10**12])}, "exceeds"),
        ({"clique": "a"}, "they are no lists of names"),
        ({"clique": ["z"]}, "'z' is not an attribute"),
        ({"clique": ["c"]}, "exceeds"),
    ],
)
def test_damaged_facts_are_refused(tmp_path, changes, problem):
    path = tmp_path / "model.npz"
    pg.estimate(measured()[:1], DOMAIN).save(path)
    with_facts(path)
    assert pg.load(path).held_facts()
    with_facts(path, **changes)
    with pytest.raises(FileFormatError, match=problem):
        pg.load(path)


def test_facts_about_huge_tables_are_refused(tmp_path):
    domain = {f"x{i}": 1000 for i in range(5)}
    path = tmp_path / "model.npz"
    pg.estimate([pg.LinearMeasurement.exact(np.ones(1000), "x0")], domain).save(path)
    with_facts(path, clique=list(domain))
    with pytest.raises(FileFormatError, match=r"about 10\^15 cells, more than it has tables for"):
        pg.load(path)


# -- supports ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_records_of_a_support_hold_facts(seed, count):
    rng = np.random.default_rng(seed)
    sizes = {name: int(rng.integers(1, 5)) for name in "abc"}
    codes = np.stack([rng.integers(0, size, 30) for size in sizes.values()], axis=1)
    support = Support(pg.Dataset.from_codes(codes, sizes))
    truth = pg.Dataset.from_codes(codes[rng.integers(0, 30, 50)], sizes)
    measurements = []
    for _ in range(count):
        names = tuple(str(name) for name in rng.permutation(list(sizes))[: rng.integers(0, 4)])
        table = truth.project(names).values
        if rng.random() < 0.5 and names:
            query = (rng.random((2, table.size)) < 0.5).astype(float)
            measurements.append(pg.LinearMeasurement.exact(query @ table.reshape(-1), names, query))
        else:
            measurements.append(pg.LinearMeasurement.exact(table, names))
    theta = pg.CliqueVector.zeros(support.domain, [])
    model = SupportModel(support, theta, 50, measurements=tuple(measurements))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = model.sample(seed=seed)
    assert misses(measurements, data).max() == 0
    assert data.project(tuple(sizes)).values[support.records.project(tuple(sizes)).values == 0].sum() == 0


def test_replacements_hold_totals_of_many_attributes_of_a_support(monkeypatch):
    rng, sizes = np.random.default_rng(2), dict(zip("abcdef", (5, 4, 6, 3, 7, 4), strict=True))
    codes = np.stack([rng.choice(size, 500, p=rng.dirichlet(np.ones(size))) for size in sizes.values()], axis=1)
    truth = pg.Dataset.from_codes(codes[rng.integers(0, 500, 800)], sizes)
    measurements = [pg.LinearMeasurement.exact(truth.project(name).values, name) for name in sizes]
    model = pg.estimate(measurements, sizes, total=800, prior=Support(pg.Dataset.from_codes(codes, sizes)))
    monkeypatch.setattr(controlled, "repair_parts", None)
    counts = model.sample(seed=0)
    assert misses(measurements, counts).max() == 0
    found = counts.project(tuple(sizes)).values
    expected = model.records.project(tuple(sizes)).values
    assert (found[expected == 0] == 0).all()
    assert np.abs(found - expected).max() < 4


def test_a_support_keeps_facts_in_files_and_says_what_it_misses(tmp_path):
    support = Support(pg.Dataset.from_codes(np.array([[0, 0], [1, 1], [2, 1]]), {"a": 3, "b": 2}))
    fact = pg.LinearMeasurement.exact([4, 3, 3], "a")
    model = pg.estimate([fact], {"a": 3, "b": 2}, prior=support)
    model.save(tmp_path / "model.npz")
    for other in (model, pg.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert other.sample(seed=0).project("a").values.tolist() == [4, 3, 3]
        batches = other.sample_batches(batch=3, seed=0)
        assert np.sum([batch.project("a").values for batch in batches], axis=0).tolist() == [4, 3, 3]
    broken = SupportModel(support, model.potentials, 10, measurements=(pg.LinearMeasurement.exact([5, 5], "b"), fact))
    with pytest.warns(UnmetFactsWarning, match="2 exact answers do not .* off by 1 at most and 2 in all") as caught:
        broken.sample(seed=0)
    assert caught[0].filename == __file__
