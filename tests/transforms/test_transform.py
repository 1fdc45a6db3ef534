"""Transforms: recoding and its inverse, for records, models and measurements, against the full joint table."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import transforms
from pgmest.errors import ArgumentError, DomainError, ShapeError
from pgmest.privacy import Curator, Rho
from pgmest.transforms import Column, Derived, Transform
from tests.privacy.amounts import rho

DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 2})


@st.composite
def recodings(draw):
    """A transform of a small domain: attributes compressed, two of them merged or not, one derived or not."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=4))
    domain = pg.Domain({f"x{i}": size for i, size in enumerate(sizes)})
    names = list(domain)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    derived = {}
    if draw(st.booleans()):
        dropped = names.pop()
        of = (names[0],)
        derived[dropped] = Derived(of, rng.integers(0, domain[dropped], domain.project(of).shape))
    groups = [names[:2], *[[name] for name in names[2:]]] if draw(st.booleans()) else [[name] for name in names]
    columns = {}
    for group in groups:
        shape = domain.project(group).shape
        codes = np.unique(rng.integers(0, 4, shape), return_inverse=True)[1].reshape(shape)
        columns["+".join(group)] = Column(group, codes, rng.random(shape))
    return Transform(domain, columns, derived), rng


@settings(max_examples=60, deadline=None)
@given(recodings())
def test_decoded_records_are_encoded_as_they_were(recoding):
    transform, rng = recoding
    after = pg.Dataset.from_codes(rng.integers(0, transform.after.shape, (50, len(transform.after))), transform.after)
    again = transform.encode(transform.decode(after, seed=0))
    assert np.array_equal(again.codes, after.codes)


@settings(max_examples=60, deadline=None)
@given(recodings())
def test_a_lifted_model_is_the_distribution_of_decoded_records(recoding):
    transform, rng = recoding
    names = list(transform.after)
    cliques = [tuple(names[i : i + 2]) for i in range(max(1, len(names) - 1))]
    theta = pg.CliqueVector.random(transform.after, cliques, seed=rng)
    model = pg.Model(theta, total=10.0)
    joint = np.zeros(transform.before.shape)
    after = model.project(names).values
    for cell in np.ndindex(*transform.before.shape):
        record = dict(zip(transform.before, cell, strict=True))
        if any(rule.codes[tuple(record[n] for n in rule.of)] != record[d] for d, rule in transform.derived.items()):
            continue
        places = {n: tuple(record[s] for s in c.sources) for n, c in transform.columns.items()}
        code = tuple(transform.columns[n].codes[places[n]] for n in names)
        joint[cell] = after[code] * np.prod([transform.columns[n].shares[places[n]] for n in names])
    np.testing.assert_allclose(transform.lift(model).project(transform.before.attributes).values, joint, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(recodings(), st.booleans())
def test_measurements_pulled_back_ask_the_same(recoding, totals):
    transform, rng = recoding
    data = pg.Dataset.from_codes(rng.integers(0, transform.before.shape, (30, len(transform.before))), transform.before)
    if transform.derived:
        data = transform.decode(transform.encode(data), seed=0)
    recoded = transform.encode(data)
    clique = tuple(transform.after)[-2:]
    marginal = recoded.project(clique).datavector()
    query = np.ones((1, marginal.size)) if totals else None
    values = [marginal.sum()] if totals else marginal
    pulled = transform.pull_back(pg.LinearMeasurement(values, clique, 2.0, query))
    np.testing.assert_allclose(pulled.answer(data.project(pulled.clique)), values)
    assert pulled.uniform_stddev == 2.0


@settings(max_examples=40, deadline=None)
@given(recodings())
def test_pushed_measurements_are_sums(recoding):
    transform, rng = recoding
    name, column = next(iter(transform.columns.items()))
    cells = transform.before.size(column.sources)
    values, stddev = rng.normal(size=cells), rng.uniform(1, 2, cells)
    pushed = transform.push(pg.LinearMeasurement(values, column.sources, stddev))
    assert pushed.clique == (name,)
    for code in range(column.size):
        members = column.codes.reshape(-1) == code
        assert pushed.values[code] == pytest.approx(values[members].sum())
        assert np.broadcast_to(pushed.stddev, column.size)[code] == pytest.approx(np.sqrt((stddev[members] ** 2).sum()))


def test_a_kron_is_pulled_back_through_merged_attributes():
    transform = transforms.merge(DOMAIN, ("c", "a"), "ca")
    query = pg.Kron({"b": pg.queries.prefix(3), "ca": np.arange(8.0)[None]})
    rng = np.random.default_rng(0)
    data = pg.Dataset.from_codes(rng.integers(0, DOMAIN.shape, (40, 3)), DOMAIN)
    values = query.apply(transform.encode(data).project(query.attributes)).reshape(-1)
    for clique in [("ca", "b"), ("b", "ca")]:
        pulled = transform.pull_back(pg.LinearMeasurement(values, clique, 1.0, query))
        np.testing.assert_allclose(pulled.answer(data.project(pulled.clique)), values)


TIMES = pg.Domain({name: 101 for name in "abcde"})


def there():
    """Five times, each recoded into whether it is not the last code."""
    return transforms.Transform(TIMES, {name: transforms.Column((name,), np.arange(101) < 100) for name in TIMES})


def test_products_stay_products_through_transforms_of_single_attributes():
    first = there()
    second = transforms.Transform(first.after, {f"no {n}": transforms.Column((n,), [1, 0]) for n in first.after})
    clique = second.after.attributes[::-1]
    inner = second.pull_back(pg.LinearMeasurement(np.arange(32.0), clique, 1.0))
    assert inner is not None
    pulled = first.pull_back(inner)
    assert pulled is not None
    assert pulled.clique == tuple("edcba")
    assert isinstance(pulled.query, pg.Kron)
    for factor in pulled.query.factors.values():
        expected = np.zeros((2, 101))
        expected[0, :100] = expected[1, 100] = 1.0  # code 1 of "no a" is that a is missing
        np.testing.assert_array_equal(factor.matrix(), expected)
    ranges = pg.Kron({"no b": pg.queries.prefix(2), "no d": [[1.0, -1.0]]})
    pulled = second.pull_back(pg.LinearMeasurement([1.0, 2.0], ("no b", "no d"), 1.0, ranges))
    assert pulled is not None
    assert isinstance(pulled.query, pg.Kron)
    np.testing.assert_array_equal(pulled.query.factors["b"].matrix(), [[0, 1], [1, 1]])
    np.testing.assert_array_equal(pulled.query.factors["d"].matrix(), [[-1, 1]])


def test_what_cannot_be_written_down_before_the_transform_is_kept_after_it():
    codes = np.random.default_rng(0).integers(0, 101, (50, 5))
    curator = pg.privacy.Curator(pg.Dataset.from_codes(codes, TIMES), pg.privacy.Rho(1.0), backend="simulation", seed=0)
    inner = curator.through(there())
    most = transforms.Column(tuple(inner.domain), np.indices((2,) * 5).sum(axis=0) > 2)
    inner = inner.through(transforms.Transform(inner.domain, {"most are there": most}))
    measured = inner.measure(("most are there",), pg.privacy.Rho(0.5))
    assert there().pull_back(pg.LinearMeasurement(np.ones(1), tuple(TIMES), 1.0, np.ones((1, 32)))) is None
    (kept,) = inner.measurements
    np.testing.assert_array_equal(kept.values, measured.values)
    assert curator.measurements == ()
    assert rho(curator.ledger.total) == pytest.approx(0.5)


def test_buckets():
    assert transforms.bucketize(DOMAIN, {"a": 2}).columns["a"].codes.tolist() == [0, 0, 1, 1]
    shares = transforms.bucketize(DOMAIN, {"a": [0, 1]}, {"a": [5, 1, 0, 3]}).columns["a"].shares
    assert shares.tolist() == [1.0, 0.25, 0.0, 0.75]


def test_a_filled_attribute_is_never_wrong():
    transform = transforms.fill(DOMAIN, "c", ("a",), [0, 1, 1, 0])
    model = transform.lift(pg.Model(pg.CliqueVector.zeros(transform.after, [("a", "b")]), total=24.0))
    assert model.project(("a", "c")).values.tolist() == [[6, 0], [0, 6], [0, 6], [6, 0]]
    assert transform.clique(("c", "b")) == ("a", "b")


def with_school():
    """Census records with an attribute more, which `education-num` tells."""
    data = pg.datasets.load("census").select(["age", "native-country", "education-num", "sex"])
    columns = [*data.columns, data.column("education-num") // 4]
    return pg.Dataset.from_codes(columns, {**data.domain, "school": (data.domain["education-num"] + 3) // 4})


CENSUS = with_school()


def curator():
    return Curator(CENSUS, Rho(0.5), backend="simulation", seed=0)


def test_rare_values_become_one():
    asked = curator()
    transform = transforms.compress_rare(asked, Rho(0.001), threshold=3.0)
    assert asked.spent <= Rho(0.001) * 1.000001
    counts = CENSUS.project("native-country").values
    codes = transform.columns["native-country"].codes
    noise = next(m.stddev for m in asked.measurements if m.clique == ("native-country",))
    together = codes == np.argmax(np.bincount(codes))
    assert 1 < together.sum() < len(codes)
    assert not together[counts > 7 * noise].any()


def test_no_value_is_compressed_alone():
    measured = pg.LinearMeasurement([100.0, 1.0, 90.0], "b", stddev=10.0)
    assert transforms.rare_values(DOMAIN, [measured]).after == DOMAIN
    two = pg.LinearMeasurement([100.0, 1.0, 2.0], "b", stddev=10.0)
    assert transforms.rare_values(DOMAIN, [two]).after["b"] == 2


def test_rare_values_together_below_theta_are_assigned_0():
    measured = pg.LinearMeasurement([5000.0, 700.0, 40.0, -60.0, 900.0], "a", stddev=100.0)
    domain = pg.Domain({"a": 5, "b": 2})
    dropped = transforms.rare_values(domain, [measured], 4.5, at_least=800, drop=True)  # theta 800, the rest 680
    assert dropped.columns["a"].codes.tolist() == [0, 0, 0, 0, 1]
    assert dropped.columns["a"].shares.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    decoded = dropped.decode(pg.Dataset.from_codes([[0, 1, 0], [1, 1, 0]], dropped.after), seed=0)
    assert decoded.column("a").tolist() == [0, 4, 0]
    more = transforms.rare_values(domain, [measured], 4.5, at_least=650, drop=True)  # 700 stays, the rest is -20
    assert more.after["a"] == 3
    for stddev, values in ((250.0, 2), (400.0, 1)):  # theta 1125 and 1800; all but the first value have 1580
        noisier = pg.LinearMeasurement([5000.0, 700.0, 40.0, -60.0, 900.0], "a", stddev=stddev)
        assert transforms.rare_values(domain, [noisier], 4.5, at_least=800, drop=True).after["a"] == values
    kept = transforms.rare_values(domain, [measured], 4.5, at_least=600, drop=False)
    assert kept.columns["a"].codes.tolist() == [0, 1, 3, 3, 2]


def test_rare_values_together_above_theta_become_one_also_where_dropping_is_asked_for():
    measured = pg.LinearMeasurement([5000.0, 700.0, 400.0], "a", stddev=10.0)
    made = transforms.rare_values(pg.Domain({"a": 3}), [measured], 4.5, at_least=800, drop=True)
    assert made.columns["a"].codes.tolist() == [0, 1, 1]
    assert made.columns["a"].shares.tolist() == pytest.approx([1.0, 710 / 1120, 410 / 1120])


def test_combinations_that_are_not_rare_have_codes_of_their_own():
    transform = transforms.merge_and_compress(curator(), Rho(0.4), ("education-num", "school"), "schooling")
    assert transform.after["schooling"] <= CENSUS.domain["education-num"] + 1  # one tells the other


def test_a_mapping_is_learned():
    transform = transforms.learn_mapping(curator(), Rho(0.4), "school", ("education-num",))
    table = CENSUS.project(("education-num", "school")).values
    present = table.sum(axis=1) > 500
    assert np.array_equal(transform.derived["school"].codes[present], table.argmax(axis=1)[present])


def test_buckets_are_refined_by_what_was_measured():
    transform = transforms.refine(curator(), Rho(0.4), {"age": 5})
    counts = CENSUS.project("age").values
    first = transform.columns["age"].codes == 0
    np.testing.assert_allclose(transform.columns["age"].shares[first], counts[first] / counts[first].sum(), atol=0.01)


def test_what_is_measured_of_recoded_records_is_told_about_the_original_attributes():
    asked = curator()
    recoded = asked.through(transforms.merge(CENSUS.domain, ("sex", "school"), "both"))
    assert recoded.budget == Rho(0.5)
    recoded.measure(("both", "age"), Rho(0.2))
    assert recoded.remaining == asked.remaining == Rho(0.3)
    assert recoded.spent == asked.spent == Rho(0.2)
    assert [m.clique for m in asked.measurements] == [("sex", "school", "age")]
    later = asked.through(transforms.bucketize(CENSUS.domain, {"age": 3}))
    assert later.budget == Rho(0.3)
    assert not later.spent


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Transform(DOMAIN, {"a": Column.same("a", 4)}), DomainError),
        (lambda: Transform(DOMAIN, {n: Column.same(n, 4) for n in DOMAIN}), ShapeError),
        (lambda: Column(("a",), [0, 2]), ShapeError),
        (lambda: Column(("a",), [0, 1], [1.0, -1.0]), ShapeError),
        (lambda: transforms.fill(DOMAIN, "c", ("a",), [0, 1, 2, 0]), ShapeError),
        (lambda: transforms.bucketize(DOMAIN, {"a": [1, 2]}), ArgumentError),
        (lambda: transforms.bucketize(DOMAIN, {"a": [0, 4]}), ArgumentError),
        (lambda: transforms.merge(DOMAIN, ("a", "b"), "c"), ArgumentError),
        (lambda: transforms.compress_rare(curator(), Rho(0.1), threshold=float("nan")), ArgumentError),
    ],
)
def test_what_cannot_be_is_refused(make, error):
    with pytest.raises(error):
        make()


# -- what cannot occur ----------------------------------------------------------------------------------------------


@st.composite
def ruled_recodings(draw):
    """A recoding, and a rule on one or two attributes before it that leaves something."""
    transform, rng = draw(recodings())
    names = rng.permutation(transform.before.attributes)[: draw(st.integers(1, 2))].tolist()
    mask = rng.random(transform.before.project(names).shape) < 0.4
    mask.flat[rng.integers(mask.size)] = False
    return transform, pg.zeros.impossible(names, mask), rng


@given(ruled_recodings())
@settings(max_examples=60, deadline=None)
def test_rules_after_a_transform_are_those_no_possible_record_breaks(case):
    transform, rule, _ = case
    (after,) = transform.zeros([rule])
    codes = np.indices(transform.before.shape).reshape(len(transform.before), -1)
    every = pg.Dataset.from_codes(list(codes), transform.before)
    for name, derived in transform.derived.items():  # what breaks a derivation is lost in recoding, and does not count
        of = tuple(every.column(source) for source in derived.of)
        every = every.take(np.flatnonzero(every.column(name) == derived.codes[of]))
    possible = every.take(
        np.flatnonzero(~rule.mask(transform.before)[tuple(every.column(name) for name in rule.attributes)])
    )
    kept = transform.encode(possible).project(after.attributes).values > 0 if possible.records else False
    assert np.array_equal(after.mask(transform.after), ~(kept & np.ones_like(after.mask(transform.after))))


@given(ruled_recodings())
@settings(max_examples=60, deadline=None)
def test_a_lifted_model_obeys_its_rules_and_keeps_what_was_known(case):
    transform, rule, rng = case
    rules = transform.zeros([rule])
    assume(not rules[0].mask(transform.after).all())  # the derived attribute's codes may break the rule everywhere
    noisy = pg.LinearMeasurement(rng.random(transform.after.size()), transform.after.attributes)
    model = pg.estimate([noisy], transform.after, structural_zeros=rules, total=1.0)
    lifted = transform.lift(model, [rule])
    assert not lifted.project(rule.attributes).values[rule.mask(transform.before)].any()
    for name, column in transform.columns.items():
        before = lifted.project(column.sources).values.reshape(-1)
        recoded = np.bincount(column.codes.reshape(-1), before, minlength=column.size)
        assert recoded == pytest.approx(model.project((name,)).values, abs=1e-9)


def test_levels_survive_a_recoding_that_merges_values_within_their_groups():
    tree = pg.Hierarchy("area", {"country": ["a", "a", "b", "b"], "state": ["v", "w", "x", "x"]})
    before = pg.Domain({"area": 4, "sex": 2}).with_hierarchies(tree)
    sex = Column.same("sex", 2)
    after = Transform(before, {"area": Column(["area"], [0, 0, 1, 2]), "sex": sex}).after
    assert after.hierarchies == {"area": pg.Hierarchy("area", {"country": ["a", "b", "b"]})}
    renamed = Transform(before, {"place": Column(["area"], [2, 1, 0, 0]), "sex": sex}).after
    expected = pg.Hierarchy(
        "place", {"country": [1, 0, 0], "state": [2, 1, 0]}, labels={"country": "ab", "state": "vwx"}
    )
    assert renamed.hierarchies == {"place": expected}
    assert not Transform(before, {"area": Column(["area"], [0, 1, 1, 0]), "sex": sex}).after.hierarchies
    assert not Transform(before, {"both": Column(["area", "sex"], [[0, 1], [2, 3], [4, 5], [6, 7]])}).after.hierarchies
