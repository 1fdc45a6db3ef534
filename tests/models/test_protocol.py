"""Every kind of model meets one contract, `EstimatedModel`: one run of checks over all of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import pgmest as pg
from pgmest.errors import (
    ArgumentError,
    CodeRangeError,
    DomainError,
    DuplicateAttributeError,
    FileFormatError,
    ModelTooLarge,
    PgmestError,
    QueryError,
    UnknownAttributeError,
)
from pgmest.mechanisms.privbayes.bayesian_network import BayesianNetwork
from pgmest.mechanisms.priview.view import ViewModel
from pgmest.models.base import ModelBase
from pgmest.models.distribution import Distribution
from pgmest.models.protocol import EstimatedModel
from pgmest.priors import Support
from pgmest.strategies.least_squares import LeastSquaresModel

GROUPS = (1, 0, 1)
DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 2}).with_hierarchies(pg.Hierarchy("b", {"half": GROUPS}))
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"))
KRON = pg.Kron({"d": [[1, -1], [2, 0.5]], "a": pg.queries.identity(2)})


def records() -> pg.Dataset:
    rng = np.random.default_rng(3)
    a = rng.integers(2, size=400)
    b = (a + rng.integers(2, size=400)) % 3
    c = (b > 0).astype(int) ^ (rng.random(400) < 0.2)
    return pg.Dataset.from_codes([a, b, c, rng.integers(2, size=400)], DOMAIN)


def measured() -> list[pg.LinearMeasurement]:
    """Two marginals, and one answered through a Kron whose attributes are in another order than the clique's."""
    data, rng = records(), np.random.default_rng(4)
    found = [
        pg.LinearMeasurement(data.project(pair).values + rng.normal(size=DOMAIN.project(pair).shape), pair)
        for pair in PAIRS[:2]
    ]
    query = pg.Kron({"d": pg.queries.identity(2), "c": pg.queries.prefix(2)})
    answers = query.apply(data.project(("d", "c")))
    return [*found, pg.LinearMeasurement(answers + rng.normal(size=answers.shape), ("c", "d"), 1.0, query)]


def network() -> BayesianNetwork:
    parents = {"b": (), "a": ("b",), "c": ("b",), "d": ("c",)}
    tables = {"b": PAIRS[0], "a": PAIRS[0], "c": PAIRS[1], "d": PAIRS[2]}
    data = records()
    return BayesianNetwork.of(DOMAIN, parents, {name: data.project(pair) for name, pair in tables.items()}, 400.0)


def hdmm(workload: Any) -> Any:
    mechanism = pg.mechanisms.HDMM(epsilon=1e3, delta=0, backend="simulation", estimator="original")
    return mechanism.fit(records(), workload, seed=0).model


KINDS: dict[str, Callable[[], Any]] = {
    "exact": lambda: pg.estimate(measured(), DOMAIN, total=400.0),
    "exact, total estimated": lambda: pg.estimate(measured(), DOMAIN),
    "approximate": lambda: pg.estimate(measured(), DOMAIN, total=400.0, oracle="convex"),
    "support": lambda: pg.estimate(measured(), DOMAIN, total=400.0, prior=Support(records())),
    "network": network,
    "views": lambda: ViewModel(DOMAIN, tuple(records().project(pair) for pair in PAIRS), 400.0),
    "views, least norm": lambda: ViewModel(DOMAIN, (records().project(PAIRS[0]),) * 2, 400.0, "least_norm"),
    "least squares": lambda: hdmm(PAIRS),
    "least squares, prefixes": lambda: hdmm(pg.workloads.prefixes(DOMAIN, PAIRS[:2], ["b"])),
}
MADE: dict[str, bytes] = {}
"""Pickles of the models: each test has one of which nothing was asked, since answers depend in their last digit on the
tables that a model has kept."""


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Any:
    if request.param not in MADE:
        MADE[request.param] = pickle.dumps(KINDS[request.param]())
    return pickle.loads(MADE[request.param])


def without_seconds(report: Any) -> str:
    return repr(report if report is None else dataclasses.replace(report, seconds=None))


def same_answers(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    assert (one.domain, one.total) == (other.domain, other.total)
    assert without_seconds(one.report) == without_seconds(other.report)  # files hold no times
    assert one.cliques == other.cliques
    for names in ((), ("a",), ("c", "b"), ("d", "a"), ("a", "b", "c", "d")):
        assert one.project(names).values.tobytes() == other.project(names).values.tobytes()
    assert one.answer(KRON).values.tobytes() == other.answer(KRON).values.tobytes()


def test_levels_are_sums_over_groups_in_files_and_pickles_too(model, tmp_path):
    model.save(tmp_path / "model.npz")
    for one in (model, pg.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        table = one.project(("a", "b")).values
        expected = np.stack([table[:, 1], table[:, 0] + table[:, 2]])
        assert np.allclose(one.project(("b@half", "a")).values, expected)
        assert np.allclose(one.project_many(["a", ("b@half", "a")])[1].values, expected)
        assert np.allclose(one.answer(pg.Kron({"b@half": [[1.0, 0.0]], "a": np.eye(2)})).values, expected[:1])


# -- the contract -----------------------------------------------------------------------------------------------------


def test_it_meets_the_protocol(model):
    assert isinstance(model, EstimatedModel)
    assert isinstance(model, ModelBase)
    parameters = inspect.signature(model.sample).parameters
    assert list(parameters)[:3] == ["n", "method", "seed"]
    assert all(one.default is not inspect.Parameter.empty for one in parameters.values())
    assert model.domain == DOMAIN
    assert model.total == pytest.approx(400, rel=0.02)
    assert repr(model).startswith(type(model).__name__)


def test_marginals_are_counts_with_the_axes_asked_for(model):
    truth = records()
    assert float(model.project(())) == pytest.approx(model.total)
    for names in ("b", ("b", "a"), ("a", "d"), ("d", "c", "a"), ("d", "b", "c", "a")):
        table = model.project(names)
        assert table.domain == DOMAIN.project(DOMAIN.clique(names))
        assert table.values.sum() == pytest.approx(model.total, rel=1e-6)
    for pair in PAIRS[:1]:
        np.testing.assert_allclose(model.project(pair).values, truth.project(pair).values, atol=6)
    with pytest.raises(ValueError, match="read-only"):
        model.project("a").values[0] = 1


def test_many_marginals_are_those_one_by_one(model):
    cliques = [("a", "c"), "d", (), ("c", "a"), ("d", "b")]
    for clique, table in zip(cliques, model.project_many(cliques), strict=True):
        expected = model.project(clique)
        assert table.domain == expected.domain
        np.testing.assert_allclose(table.values, expected.values, atol=1e-7)


def test_evidence_is_a_slice_of_the_joint_marginal(model):
    expected = model.project(("c", "a", "b")).condition({"a": 1, "b": 2})
    np.testing.assert_allclose(model.project("c", {"a": 1, "b": 2}).values, expected.values, atol=1e-3)
    with pytest.raises(CodeRangeError, match="a=2"):
        model.project("c", {"a": 2})
    with pytest.raises(QueryError, match="in both the query and the evidence"):
        model.project("c", {"c": 0})


@pytest.mark.parametrize(
    "matrix",
    [pg.queries.prefix(6), np.eye(6)[:2], sparse.csr_array(np.ones((1, 6))), aslinearoperator(np.eye(6)), np.ones(6)],
    ids=["query", "dense", "sparse", "operator", "one row"],
)
def test_a_matrix_is_answered_about_its_clique(model, matrix):
    cells = model.project(("b", "a")).datavector()
    dense = np.atleast_2d(matrix.matmat(np.eye(6)) if hasattr(matrix, "matmat") else np.asarray(_dense(matrix)))
    answer = model.answer(matrix, ("b", "a"))
    np.testing.assert_allclose(answer.values, dense @ cells, atol=1e-7)


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def test_krons_are_answered_alone_and_together(model):
    other = pg.Kron({"b": pg.queries.prefix(3)})
    expected = KRON.apply(model.project(("a", "d")))
    answers = model.answer([KRON, other])
    np.testing.assert_allclose(answers[0].values, expected, atol=1e-6)
    np.testing.assert_allclose(model.answer(KRON).values, expected, atol=1e-6)
    np.testing.assert_allclose(answers[1].values, other.apply(model.project("b")), atol=1e-6)
    assert answers[0].domain == pg.Domain({"d": 2, "a": 2})


def test_measurements_are_answered(model):
    for one in measured():
        expected = one.answer(model.project(one.clique))
        np.testing.assert_allclose(model.answer(one).datavector(), expected, atol=1e-6)


def test_questions_that_cannot_be_are_refused(model):
    with pytest.raises(UnknownAttributeError, match="'e' is not an attribute"):
        model.project("e")
    with pytest.raises(DuplicateAttributeError, match="more than once"):
        model.project(("a", "a"))
    with pytest.raises(QueryError, match="expected 3 columns"):
        model.answer(pg.Kron({"b": pg.queries.prefix(4)}))
    with pytest.raises(QueryError, match="expected 6 columns"):
        model.answer(np.eye(5), ("a", "b"))
    for query, clique in ((np.eye(2), None), (KRON, ("a", "d")), ("x", None), (3, None)):
        with pytest.raises(PgmestError):
            model.answer(query, clique)


# -- records ----------------------------------------------------------------------------------------------------------


def draws(model: Any) -> bool:
    return isinstance(model, Distribution)


def test_records_are_drawn_by_one_signature_or_refused_with_a_reason(model):
    if not draws(model):
        for call in (model.sample, lambda: model.sample(5, "round", 0)):
            with pytest.raises(QueryError, match="is no distribution to draw records from"):
                call()
        return
    assert model.sample().records == round(model.total)
    for drawn in (model.sample(50, "round", 1), model.sample(n=50, method="round", seed=np.random.default_rng(1))):
        assert (drawn.records, drawn.domain) == (50, DOMAIN)
        assert all(drawn.column(name).max() < DOMAIN[name] for name in DOMAIN)
    same = (model.sample(50, "round", 1), model.sample(50, "round", seed=1))
    assert all(np.array_equal(one, other) for one, other in zip(*(data.columns for data in same), strict=True))
    assert model.sample(0, seed=0).records == 0
    assert [part.records for part in model.sample_batches(25, 10, "round", 0)] == [10, 10, 5]


def test_rounded_records_are_as_close_as_integers_can_be(model):
    if not draws(model):
        pytest.skip("no records")
    n = 4000
    table = model.sample(n, "round", 5).project(("a", "b")).values
    expected = model.project(("a", "b")).values * (n / model.total)
    assert np.abs(table - expected).max() < 12  # independent records would be off by 25 and more


def test_independent_records_scatter_as_they_must(model):
    if not draws(model):
        pytest.skip("no records")
    if isinstance(model, ViewModel):
        with pytest.raises(ArgumentError, match="method"):
            model.sample(5, "multinomial")
        return
    counts = [model.sample(400, "multinomial", seed).project("a").values[0] for seed in range(60)]
    p = model.project("a").values[0] / model.total
    assert abs(np.mean(counts) - 400 * p) < 5 * np.sqrt(400 * p * (1 - p) / 60)
    assert 0.5 < np.std(counts) / np.sqrt(400 * p * (1 - p)) < 1.7


@pytest.mark.parametrize("n", [-1, 2.5, "3", True, np.nan])
def test_a_number_of_records_that_is_none_is_refused(model, n):
    with pytest.raises((ArgumentError, QueryError)) as caught:
        model.sample(n)
    if draws(model):
        assert isinstance(caught.value, ArgumentError)
        assert "n must be" in str(caught.value) or "n=" in str(caught.value)


def test_an_unknown_method_is_refused(model):
    with pytest.raises((ArgumentError, QueryError)):
        model.sample(3, "gibbs")


# -- copies and files -------------------------------------------------------------------------------------------------


def test_it_comes_back_from_its_file(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    loaded = pg.load(path)
    same_answers(loaded, model)
    if draws(model):
        for one, other in zip(loaded.sample(30, seed=2).columns, model.sample(30, seed=2).columns, strict=True):
            assert np.array_equal(one, other)
    loaded.save(tmp_path / "again.npz")
    same_answers(pg.load(tmp_path / "again.npz"), model)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_can_be_copied_and_pickled(model, copied):
    same_answers(copied(model), model)


def test_a_damaged_file_is_refused_and_nothing_else(model, tmp_path):
    """Every member cut, and every value of the header replaced: an error of ours, or a model."""
    path = tmp_path / "model.npz"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(np.load(io.BytesIO(contents["header.npy"])).tobytes())
    for name in contents:
        _refused(path, contents | {name: contents[name][:-8]})
    for name in header:
        for value in (None, -1, "x", [], [["a"]], [[["a"]]], {}, [{}], [{"cliques": [["z"]]}], True):
            if value != header[name]:
                _refused(path, contents | {"header.npy": _header(header | {name: value})}, name)
        _refused(path, contents | {"header.npy": _header({k: v for k, v in header.items() if k != name})}, name)


def _header(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.frombuffer(json.dumps(values).encode(), dtype=np.uint8))
    return buffer.getvalue()


def _refused(path: Path, contents: dict[str, bytes], field: str = "") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    try:
        pg.load(path)
    except FileFormatError:
        return
    optional = ("total", "total_stddev", "report", "cliques", "noise", "hierarchies")
    assert field in optional, f"{field} made no difference"


# -- what each kind alone must see to ---------------------------------------------------------------------------------


def test_least_squares_refuses_what_does_not_fit_in_memory():
    wide = pg.Domain({f"x{i}": 4 for i in range(26)})
    data = pg.Dataset.from_codes(np.zeros((10, 26), dtype=int), wide)
    mechanism = pg.mechanisms.HDMM(epsilon=1.0, delta=0, backend="simulation", estimator="original")
    model = mechanism.fit(data, [("x0", "x1")], seed=0).model
    assert isinstance(model, LeastSquaresModel)
    with pytest.raises(ModelTooLarge, match=r"26 attributes has 10\^16 cells"):
        model.project(wide.attributes)
    with pytest.raises(ModelTooLarge):
        model.answer(pg.Kron({name: pg.queries.total(4) for name in wide}))
    more_axes = pg.Domain({f"x{i}": 1 for i in range(80)})
    model = mechanism.fit(pg.Dataset.from_codes(np.zeros((10, 80), dtype=int), more_axes), ["x0"], seed=0).model
    with pytest.raises(ModelTooLarge, match="80 axes"):
        model.project(more_axes.attributes)


def test_a_network_that_is_none_says_why():
    table = pg.Factor({"a": 2}, [0.5, 0.5])
    with pytest.raises(DomainError, match="one conditional table for each attribute"):
        BayesianNetwork(pg.Domain({"a": 2, "b": 2}), {"a": table}, 1.0)
    both = pg.Factor({"b": 2, "a": 2}, np.full((2, 2), 0.5))
    with pytest.raises(DomainError, match="must come before 'a'"):
        BayesianNetwork(both.domain, {"a": both, "b": pg.Factor({"b": 2}, [0.5, 0.5])}, 1.0)
    with pytest.raises(ArgumentError, match="probabilities"):
        BayesianNetwork(pg.Domain({"a": 2}), {"a": pg.Factor({"a": 2}, [0.5, 1.5])}, 1.0)


def test_a_network_deals_every_code_as_often_as_its_parents_say():
    model = network()
    for seed in range(5):
        drawn = model.sample(1000, "round", seed)
        for name, table in model.conditionals.items():
            *given, _ = table.domain.attributes
            counts = drawn.project((*given, name)).values
            expected = counts.sum(axis=-1, keepdims=True) * table.values
            assert np.abs(counts - expected).max() < 1


def test_views_refuse_an_unknown_reconstruction():
    with pytest.raises(ArgumentError, match="reconstruction"):
        ViewModel(DOMAIN, (), 1.0, "magic")


def joint_kl(p: Any, q: Any) -> float:
    """On the full table."""
    one, other = (model.project(DOMAIN.attributes).normalize().datavector() for model in (p, q))
    if (other[one > 1e-12] == 0).any():
        return np.inf
    kept = one > 1e-12
    return float(one[kept] @ (np.log(one[kept]) - np.log(other[kept])))


def every_record() -> Support:
    codes = np.stack(np.unravel_index(np.arange(24), DOMAIN.shape))
    weights = np.random.default_rng(1).random(24)
    return Support(pg.Dataset.from_codes(list(codes), DOMAIN, weights))


def test_divergence_between_models_of_any_two_kinds_with_a_joint_distribution():
    support = pg.estimate([], DOMAIN, total=400.0, prior=every_record())
    inside = Support(records())
    on_support = pg.estimate([], DOMAIN, total=400.0, prior=inside)
    exact = KINDS["exact"]()
    for p in (exact, network(), support, on_support):
        for q in (exact, network(), support, on_support):
            expected = joint_kl(p, q)
            assert p.kl(q) == pytest.approx(expected, abs=1e-8), (type(p), type(q))
    assert exact.kl(on_support) == np.inf
    for q in (KINDS["views"](), KINDS["least squares"](), KINDS["approximate"]()):
        for p in (exact, network(), support):
            with pytest.raises(ArgumentError, match="a Model, SupportModel or BayesianNetwork"):
                p.kl(q)
    other = pg.estimate([], {"a": 2}, total=1.0)
    for p, q in ((other, exact), (other, support), (exact, other), (support, other)):
        with pytest.raises(DomainError):
            p.kl(q)
