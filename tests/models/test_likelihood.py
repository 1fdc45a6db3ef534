"""Models of records that are kept with a probability, against the joint table; and models that were conditioned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, ImpossibleModelError, ShapeError, UnknownAttributeError
from pgmest.models.support import SupportModel
from pgmest.priors import Support
from tests.every_check import EVERY_CHECK

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2})
few = settings(max_examples=40, deadline=None, suppress_health_check=EVERY_CHECK)


def models(seed, cliques):
    rng = np.random.default_rng(seed)
    theta = pg.CliqueVector.random(DOMAIN, cliques, seed=seed)
    rows = np.unique(rng.integers(0, [2, 3, 2], (9, 3)), axis=0)
    support = Support(pg.Dataset.from_codes(rows, DOMAIN))
    return pg.Model(theta, 100.0), SupportModel(support, theta, 100.0)


def joint(model):
    return model.project(("a", "b", "c")).values


@few
@given(
    st.integers(0, 10**6),
    st.sampled_from(([("a", "b"), ("b", "c")], [("a",), ("a", "c")], [])),
    st.dictionaries(
        st.sampled_from(("a", "b", "c")), st.lists(st.sampled_from((0.0, 0.3, 1.0)), min_size=3, max_size=3)
    ),
)
def test_likelihoods_weigh_the_joint_table(seed, cliques, drawn):
    likelihoods = {name: np.array(values[: DOMAIN[name]]) for name, values in drawn.items()}
    for model in models(seed, cliques):
        expected = joint(model).copy()
        for name, values in likelihoods.items():
            expected *= values.reshape([-1 if other == name else 1 for other in "abc"])
        if expected.sum() > 0:
            made = model.with_likelihood(likelihoods)
            np.testing.assert_allclose(joint(made), expected, atol=1e-9)
            assert made.total == pytest.approx(expected.sum())
        else:
            with pytest.raises(ImpossibleModelError, match="no record has the given values"):
                joint(model.with_likelihood(likelihoods))


@pytest.mark.parametrize(
    ("likelihoods", "error"),
    [
        ({"x": [1.0, 0.0]}, UnknownAttributeError),
        ({"a": [1.0]}, ShapeError),
        ({"a": [1.0, 1.5]}, ArgumentError),
        ({"a": [np.nan, 1.0]}, ArgumentError),
        ({"a": [-0.1, 1.0]}, ArgumentError),
        ({"a": ["x", "y"]}, ArgumentError),
        ({"a": [[1.0], [1.0, 0.0]]}, ArgumentError),
        (None, ArgumentError),
        ([1.0, 0.0], ArgumentError),
    ],
)
def test_what_is_no_likelihood_is_refused(likelihoods, error):
    for model in models(0, [("a", "b")]):
        with pytest.raises(error):
            model.with_likelihood(likelihoods)


def test_records_of_a_conditioned_model_know_its_evidence(tmp_path):
    for number, model in enumerate(models(1, [("a", "b"), ("b", "c")])):
        model.describe(note="kept")
        made = model.condition({"b": int(joint(model).sum((0, 2)).argmax())})
        made = made.condition({"a": int(made.project("a").values.argmax())})
        made.save(tmp_path / f"{number}.npz")
        for one in (made, pg.load(tmp_path / f"{number}.npz")):
            assert set(one.evidence) == {"a", "b"}
            assert one.about["note"] == "kept"
            records = one.sample(5, seed=0)
            assert records.evidence == one.evidence
            assert records.take([0, 1]).evidence == one.evidence
            assert pg.Dataset.concat([records, records]).evidence == one.evidence
            batches = list(one.sample_batches(5, 2, seed=0))
            assert all(batch.evidence == one.evidence for batch in batches)
        assert model.sample(5, seed=0).evidence is None


def test_a_file_cannot_claim_evidence_that_is_none():
    model = models(1, [])[0]
    model.describe(evidence={"a": 1, "x": "0", "y": True, "z": 3})
    assert model.evidence == {"z": 3}  # `a` is an attribute
    model.describe(evidence=[1])
    assert model.evidence == {}
