"""Measured tables are told apart from modeled ones."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.measured_tables import IN_GROUPS, MEASURED, MODELED, MeasuredCliques
from pgmest.queries.levels import named_levels

DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 2, "d": 5})


class Source:
    domain = DOMAIN

    def __init__(self, *measurements):
        self.measurements = measurements


def test_the_evidence_of_each_table():
    whole = pg.LinearMeasurement(np.zeros(12), ("a", "b"), 1.0)
    merged = pg.LinearMeasurement(
        np.zeros(8), ("c", "d"), 1.0, pg.Kron({"c": np.eye(2), "d": np.eye(4)[:, [0, 0, 1, 2, 3]]})
    )
    differences = pg.LinearMeasurement(np.zeros(1), ("c",), 1.0, pg.Kron({"c": np.array([[1.0, -1.0]])}))
    prefixes = pg.LinearMeasurement(np.zeros(5), ("d",), 1.0, pg.queries.prefix(5))
    found = MeasuredCliques.of(Source(prefixes))
    assert found is not None
    assert found.evidence(("d",)) == MEASURED
    known = MeasuredCliques.of(Source(whole, differences, pg.LinearMeasurement(np.zeros(2), ("d",), 1.0, np.eye(2, 5))))
    assert known is not None
    assert [known.evidence(clique) for clique in (("a",), ("b", "a"), ("c",))] == [MEASURED] * 3
    assert known.evidence(("d",)) == IN_GROUPS
    assert known.evidence(("a", "c")) == known.evidence(("c", "d")) == MODELED
    known = MeasuredCliques.of(Source(whole, merged))
    assert known is not None
    assert known.evidence(("d", "c")) == known.evidence(("d",)) == IN_GROUPS


def test_models_and_tables():
    model = pg.estimate([pg.LinearMeasurement(np.ones(12), ("a", "b"), 1.0)], DOMAIN)
    known = MeasuredCliques.of(model)
    assert known is not None
    assert (known.evidence(("b",)), known.evidence(("c",))) == (MEASURED, MODELED)
    assert MeasuredCliques.of(pg.Dataset.from_codes([[0], [0], [0], [0]], DOMAIN)) is None
    assert MeasuredCliques.of(Source()) is None


@pytest.mark.parametrize("mechanism", [pg.mechanisms.MST, pg.mechanisms.Independent])
def test_results_of_mechanisms(mechanism):
    generator = np.random.default_rng(0)
    data = pg.Dataset.from_codes([generator.integers(0, size, 500) for size in DOMAIN.shape], DOMAIN)
    result = mechanism(rho=100.0, backend="simulation").fit(data, seed=0)
    known = MeasuredCliques.of(result)
    assert known is not None
    pairs = {measurement.clique for measurement in result.measurements if len(measurement.clique) == 2}
    evidence = {clique: known.evidence(clique) for clique in pg.workloads.all_kway(DOMAIN, 2).cliques}
    assert {frozenset(c) for c, found in evidence.items() if found == MEASURED} == {frozenset(pair) for pair in pairs}
    assert all(known.evidence((name,)) == MEASURED for name in DOMAIN)


def test_a_level_is_measured_where_values_are_merged_within_its_groups_only():
    levels = {"coarse": [0, 0, 0, 1], "fine": [0, 0, 1, 2], "across": [0, 1, 1, 1]}
    trees = {name: pg.Hierarchy("a", {name: groups}) for name, groups in levels.items()}
    fine = pg.queries.compress(4, levels["fine"])
    model = pg.estimate(
        [
            pg.LinearMeasurement(
                np.full((3, 2), 5.0), ("a", "b"), 1.0, pg.Kron({"a": fine, "b": pg.queries.identity(2)})
            )
        ],
        {"a": 4, "b": 2, "c": 2},
    )
    known = MeasuredCliques.of(model)
    assert known is not None
    found = {}
    for name, tree in trees.items():
        domain = model.domain.with_hierarchies(tree)
        found[name] = known.evidence_by_level(named_levels(domain, (f"a@{name}", "b")))
        assert known.evidence_by_level(named_levels(domain, (f"a@{name}", "c"))) == MODELED
        assert known.evidence_by_level(named_levels(domain, ("a", "b"))) == IN_GROUPS
        assert known.evidence_by_level(named_levels(domain, ("b",))) == MEASURED
    assert found == {"coarse": MEASURED, "fine": MEASURED, "across": IN_GROUPS}
