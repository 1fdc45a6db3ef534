"""A table without records: a total of 0 from exact zeros or as an argument, in every kind of model."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError
from pgmest.priors import Support, public_model

DOMAIN = pg.Domain({"type": 3, "tenure": 2, "floor": 2})
DATA = pg.Dataset.from_codes(np.array([[0, 0, 1], [1, 1, 0], [2, 1, 1], [0, 1, 1]]), DOMAIN)
ZEROS = [
    pg.LinearMeasurement.exact([0, 0, 0], "type"),
    pg.LinearMeasurement.exact([[0, 0], [0, 0]], ("tenure", "floor")),
]
NOISY = [pg.LinearMeasurement([3.0, 1.0, 2.0], "type", 2.0)]
KINDS = {
    "exact": {},
    "fit": {"total": "fit"},
    "support": {"prior": Support(DATA)},
    "public": {"prior": public_model(DATA, [("type",)]), "prior_weight": 0.1},
    "convex": {"oracle": "convex"},
    "lbfgs": {"method": "lbfgs"},
    "l1": {"loss": "l1"},
    "likelihood": {"loss": "likelihood"},
    "zeros": {"structural_zeros": {("type", "floor"): [(0, 0)]}},
}
MODELS = {name: pg.estimate(ZEROS, DOMAIN, **options) for name, options in KINDS.items()}
MODELS["argument"] = pg.estimate(NOISY, DOMAIN, total=0)


@pytest.mark.parametrize("name", MODELS)
class TestEveryKind:
    def test_answers_are_zero(self, name):
        model = MODELS[name]
        assert model.total == 0.0
        assert model.total_stddev is None
        assert model.report.converged
        for clique in [(), ("type",), ("floor", "type"), ("type", "tenure", "floor")]:
            assert np.array_equal(model.project(clique).values, np.zeros(DOMAIN.project(clique).shape))
        assert np.array_equal(model.project("type", {"floor": 1}).values, np.zeros(3))
        assert np.array_equal(model.answer(pg.Kron({"type": pg.queries.prefix(3)})).values, np.zeros(3))
        assert "0.0 records" in repr(model)

    def test_there_are_no_records(self, name):
        made = MODELS[name].sample(seed=0)
        assert made.records == 0
        assert made.domain == DOMAIN
        assert MODELS[name].sample(seed=0, method="multinomial").records == 0
        assert list(MODELS[name].sample_batches(seed=0)) == []

    def test_files(self, name, tmp_path):
        MODELS[name].save(tmp_path / "model.npz")
        loaded = pg.load(tmp_path / "model.npz")
        assert loaded.total == 0.0
        assert np.array_equal(loaded.project(("type", "floor")).values, np.zeros((3, 2)))
        assert loaded.sample(seed=0).records == 0


@pytest.mark.parametrize("name", ["exact", "fit", "lbfgs", "zeros", "argument"])
def test_intervals(name):
    model = MODELS[name]
    for kind in ("noise", "auto") if name != "argument" else ("noise",):
        low, high = model.interval("type", kind=kind)
        assert np.array_equal(low.values, np.zeros(3))
        assert np.array_equal(high.values, np.zeros(3))
    assert np.array_equal(model.uncertainty(("type", "floor")).stddev.values, np.zeros((3, 2)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("clique", [("type", "floor"), ("type", "tenure", "floor")])
def test_intervals_of_a_release_that_noise_left_without_records(clique):
    """The square of a total that is replaced by a tiny number is 0, by which nothing can be divided."""
    data = pg.Dataset.from_codes(
        np.zeros((3, 3), dtype=int), DOMAIN.with_hierarchies(pg.Hierarchy("type", {"a": [0, 0, 1]}))
    )
    runs = [pg.mechanisms.TopDown(rho=1e-4, spine="type", backend="simulation") for _ in range(6)]
    models = [run.fit(data, seed=seed, progress=False).model for seed, run in enumerate(runs)]
    empty = [model for model in models if model.total == 0]
    assert empty
    for model in empty:
        low, high = model.interval(clique)
        assert np.isfinite(high.values).all()
        assert (low.values <= high.values).all()


def test_the_distribution_is_that_of_the_prior():
    uniform, support = MODELS["exact"], MODELS["support"]
    assert np.allclose(uniform.conditional("type", "floor").values, 1 / 3)
    assert uniform.mutual_information("type", "floor") == pytest.approx(0.0, abs=1e-12)
    assert np.allclose(support.probabilities, 0.25)
    assert support.effective_size == pytest.approx(4.0)
    assert support.condition({"floor": 1}).total == uniform.condition({"floor": 1}).total == 0.0
    assert MODELS["zeros"].conditional("type", "floor").values[0, 0] == 0.0
    assert uniform.sample(6, seed=0).records == support.sample(6, seed=0).records == 6
    with pytest.raises(ArgumentError, match="the tables have no records"):
        MODELS["convex"].sample(6)


@pytest.mark.parametrize("values", [[0.21, 0.42], [1e-9, 2e-9], [1e12, 3e12]])
def test_small_and_large_exact_totals_keep_their_sum(values):
    model = pg.estimate([pg.LinearMeasurement.exact(values, "tenure")], DOMAIN)
    assert model.total == sum(values)
    assert model.project("tenure").values.sum() == pytest.approx(sum(values))
