"""Tables that matter: named to the Synthesizer, they are spent on first, and the result says what became of them."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, UnknownAttributeError

OPEN = {
    "columns": {
        "age": {"type": "integer", "bounds": "bought", "bins": 8},
        "job": {"type": "categorical", "values": "bought"},
        "sex": {"type": "categorical", "values": ["F", "M"], "outside": "error"},
    }
}
PUBLIC = {
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "width": 10},
        "job": {"type": "categorical", "values": ["a", "b", "c"], "outside": "error"},
        "sex": {"type": "categorical", "values": ["F", "M"], "outside": "error"},
    }
}


def people():
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    age = rng.integers(0, 90, 3000)
    job = np.where(rng.random(3000) < age / 90, "a", rng.choice(["b", "c"], 3000))
    return pd.DataFrame({"age": age, "job": job, "sex": rng.choice(["F", "M"], 3000)})


def fitted(matters, schema=PUBLIC, mechanism="lamp"):
    parameters = {"records": 2000} if mechanism == "lamp" else {}
    made = pg.Synthesizer(mechanism, epsilon=2.0, matters=matters, backend="simulation", **parameters)
    return made.fit(people(), schema, seed=0)


@pytest.mark.parametrize("schema", [OPEN, PUBLIC], ids=["bought", "public"])
@pytest.mark.parametrize("mechanism", ["lamp", "aim"])
def test_what_matters_is_measured_also_if_values_are_bought(schema, mechanism):
    made = fitted([("job", "age")], schema, mechanism)
    assert made.kept_ is not None
    assert made.kept_.on_matters() == ["age x job: measured"]
    assert made.result_.details["matters"] == (("age", "job"),)
    assert ("age", "job") in {measurement.clique for measurement in made.result_.measurements}
    remaining = made.ledger_.remaining / made.ledger_.budget
    assert remaining == pytest.approx(0, abs=1e-6)


def test_an_iterator_of_tables_is_read_once():
    made = fitted(iter([("age", "job"), ("sex",)]))
    assert made.kept_ is not None
    assert made.kept_.on_matters() == ["age x job: measured", "sex: measured"]


@pytest.mark.parametrize(
    ("matters", "error", "text"),
    [
        ("job,age", ArgumentError, "matters='job,age'"),
        (("job", "age"), ArgumentError, "a list of tuples"),
        ([("job", "agee")], UnknownAttributeError, "Did you mean 'age'"),
    ],
)
def test_mistakes_are_named_before_anything_is_paid(matters, error, text):
    with pytest.raises(error, match=text):
        fitted(matters)


def test_a_mechanism_that_treats_all_tables_alike_refuses():
    with pytest.raises(ArgumentError, match="MST treats all marginals alike"):
        fitted([("job", "age")], mechanism="mst")


def test_without_matters_nothing_is_said_of_them():
    made = fitted(None)
    assert "matters" not in made.result_.details
    assert made.kept_ is not None
    assert made.kept_.matters == []
    assert "matters" not in repr(made)
