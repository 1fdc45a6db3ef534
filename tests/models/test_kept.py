"""Files and pickles keep more than a model's numbers: what it was estimated from, and what was said of it."""

import copy
import pickle

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, FileFormatError
from pgmest.losses.l2 import L2Loss
from tests.reliability.damage import header_of, members, with_header, write_members

DOMAIN = pg.Domain({"town": 6, "county": 3, "state": 2, "age": 4})
COUNTY, STATE = [0, 0, 1, 1, 2, 2], [0, 0, 1]


def functional():
    """Zeros by which county and state are functions of the town, and answers about each with the age."""
    zeros = [pg.zeros.function("county", of="town", codes=COUNTY), pg.zeros.function("state", of="county", codes=STATE)]
    rng = np.random.default_rng(0)
    towns, ages = rng.integers(6, size=500), rng.integers(4, size=500)
    counties = np.array(COUNTY)[towns]
    data = pg.Dataset.from_codes([towns, counties, np.array(STATE)[counties], ages], DOMAIN)
    cliques = [("town", "age"), ("county", "age"), ("state", "age")]
    noisy = pg.simulation.simulate_measurements(data, cliques, stddev=4, seed=1)
    return pg.estimate(noisy, DOMAIN, structural_zeros=zeros)


@pytest.fixture(scope="module")
def model():
    return functional()


@pytest.mark.parametrize("keep", ["file", "pickle", "copy"])
def test_error_bars_are_kept_where_attributes_are_functions_of_others(model, keep, tmp_path):
    assert model.refit.collapse is not None
    if keep == "file":
        model.save(tmp_path / "model.npz")
        kept = pg.load(tmp_path / "model.npz")
    else:
        kept = pickle.loads(pickle.dumps(model)) if keep == "pickle" else copy.deepcopy(model)
    for query in ("county", ("state", "age"), ("town", "state")):
        one, two = (m.uncertainty(query, replicates=8, seed=3) for m in (model, kept))
        np.testing.assert_allclose(two.stddev.values, one.stddev.values, rtol=1e-6, atol=1e-9)
    assert kept.uncertainty("county", replicates=8).stddev.values.max() > 0


def own_loss(measurements, domain):
    return L2Loss(measurements, domain)


def test_a_loss_of_ones_own_says_why_there_are_no_error_bars(tmp_path):
    noisy = [pg.LinearMeasurement([4.0, 3, 2], ("a",), 1.0)]
    model = pg.estimate(noisy, {"a": 3}, loss=own_loss)
    assert model.uncertainty("a", replicates=4).stddev.values.max() > 0
    model.save(tmp_path / "model.npz")
    for kept in (pg.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        with pytest.raises(ArgumentError, match="the caller's own loss"):
            kept.uncertainty("a")
    again = pg.load(tmp_path / "model.npz")
    again.save(tmp_path / "again.npz")
    with pytest.raises(ArgumentError, match="the caller's own loss"):
        pg.load(tmp_path / "again.npz").uncertainty("a")


def test_what_was_said_of_a_model_survives(model, tmp_path):
    described = pickle.loads(pickle.dumps(model))
    described.describe(schema={"columns": {}}, privacy={"epsilon": 1.0})
    described.save(tmp_path / "model.npz")
    for kept in (
        pickle.loads(pickle.dumps(described)),
        copy.copy(described),
        copy.deepcopy(described),
        pg.load(tmp_path / "model.npz"),
    ):
        assert kept.about == {"schema": {"columns": {}}, "privacy": {"epsilon": 1.0}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("of", "county"), ["town", [0, 0, 1, 1, 2, 9]]),
        (("of", "county"), ["town", [0, 0, 1, 1, 2]]),
        (("of", "county"), ["town", [0.5] * 6]),
        (("of", "county"), ["nowhere", COUNTY]),
        (("of", "county"), "town"),
        (("of", "town"), ["state", [0, 1]]),
        (("of",), []),
        (("of",), {"town": ["state", [0, 1]]}),
        (("replaced",), ["age"]),
        (("cliques",), [["town"], ["town"]]),
        (("cliques",), [["nowhere"]]),
        (("kept",), 7),
        ((), None),
        ((), []),
    ],
)
def test_a_file_whose_functions_are_wrong_is_refused(model, tmp_path, path, value):
    model.save(tmp_path / "model.npz")
    contents = members(tmp_path / "model.npz")
    header = header_of(contents)
    place = header["estimate"]
    for key in ("functions", *path)[:-1]:
        place = place[key]
    place[("functions", *path)[-1]] = value
    write_members(tmp_path / "wrong.npz", with_header(contents, header))
    with pytest.raises(FileFormatError):
        pg.load(tmp_path / "wrong.npz")
