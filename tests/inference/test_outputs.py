"""The arrays that an oracle is given to write to."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, ShapeError
from pgmest.inference.exact.belief_propagation import ExactOracle
from pgmest.inference.exact.propagation_plan import PropagationPlan
from pgmest.inference.outputs import checked_output
from pgmest.inference.regions.region_oracle import RegionOracle
from pgmest.inference.support.support import Support
from pgmest.inference.support.support_oracle import SupportOracle
from pgmest.tables.clique_vector import Layout

LAYOUT = Layout.of(pg.Domain({"a": 3, "b": 2, "c": 4}), [("a", "b"), ("b", "c"), ("a", "c")])
CELLS = LAYOUT.cells
RECORDS = Support(pg.Dataset.from_codes(np.indices((3, 2, 4)).reshape(3, -1).T, LAYOUT.domain))
ORACLES = {
    "exact": lambda: ExactOracle(PropagationPlan.of(LAYOUT)),
    "regions": lambda: RegionOracle(LAYOUT),
    "support": lambda: SupportOracle(RECORDS, LAYOUT),
}
UNFIT = {
    "short": np.ones(CELLS - 1),
    "long": np.ones(CELLS + 1),
    "integers": np.ones(CELLS, np.int64),
    "float32": np.ones(CELLS, np.float32),
    "a column": np.ones((CELLS, 1)),
    "strided": np.ones(2 * CELLS)[::2],
    "read-only": np.broadcast_to(np.ones(CELLS), (CELLS,)),
}


@pytest.mark.parametrize("fault", UNFIT)
@pytest.mark.parametrize("name", ORACLES)
def test_no_oracle_writes_to_what_does_not_fit(name, fault):
    oracle, out, theta = ORACLES[name](), UNFIT[fault], np.linspace(0, 1, CELLS)
    for call in (lambda: oracle.run(theta, 1.0, out), lambda: oracle.max_marginals(theta, out)):
        with pytest.raises((ShapeError, ArgumentError), match=r"^out"):
            call()
    assert (out == 1.0).all()


@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_writes_to_what_fits(name):
    oracle, theta = ORACLES[name](), np.linspace(0, 1, CELLS)
    out = np.empty(CELLS)
    found, _ = oracle.run(theta, 5.0, out)
    assert found is out
    assert found == pytest.approx(np.asarray(oracle.run(theta, 5.0)[0]), rel=1e-6)
    assert oracle.max_marginals(theta, out) is out


def test_without_an_output_there_is_a_new_one():
    assert checked_output(None, 3).shape == (3,)
    assert checked_output(None, 3).dtype == np.float64
