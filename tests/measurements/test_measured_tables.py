"""Measured tables are told apart from modeled ones."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.measured_tables import IN_GROUPS, MEASURED, MODELED, MeasuredCliques, measured_tables
from pgmest.queries.levels import level_kron, named_levels

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


TREES = DOMAIN.with_hierarchies(pg.Hierarchy("d", {"half": [0, 0, 1, 1, 1], "third": ["x", "x", "y", "y", "z"]}))


def of(names, stddev=1.0):
    """Return a measurement of a table by attributes and levels, with answers of 0, and 0 noise if it is exact."""
    query = level_kron(TREES, names)
    values, clique = np.zeros(query.rows), query.attributes
    if not stddev:
        return pg.LinearMeasurement.exact(values, clique, query)
    return pg.LinearMeasurement(values, clique, stddev, query)


def test_tables_by_level_have_rows_of_their_own():
    neither = pg.LinearMeasurement(np.zeros(2), "d", 5.0, pg.queries.compress(5, [0, 1, 1, 1, 1]))
    asked = [of(["d"], 2.0), of(["d@half"], 3.0), of(["d@half"], 3.0), of(["c", "d@third"], 4.0), neither]
    found = {table.clique: (table.cells, round(table.stddev, 2)) for table in measured_tables(asked, 100, TREES)}
    both = round((2.0**-2 + 5.0**-2) ** -0.5, 2)
    assert found == {("d",): (5, both), ("d@half",): (2, round(3 / np.sqrt(2), 2)), ("c", "d@third"): (6, 4.0)}


@pytest.mark.parametrize(
    ("exact", "left"),
    [
        (["d"], [("c", "d@half")]),
        (["d@third"], [("d",), ("c", "d@half")]),
        (["d@half"], [("d",), ("d@third",), ("c", "d@half")]),
        (["d", "c"], []),
        (["c"], [("d@half",), ("d@third",), ("d",), ("c", "d@half")]),
    ],
    ids=["areas", "thirds", "halves", "pair", "other"],
)
def test_tables_that_exact_answers_determine_have_no_noise(exact, left):
    asked = [of(["d"], 2.0), of(["d@half"], 2.0), of(["d@third"], 2.0), of(["c", "d@half"], 2.0)]
    found = measured_tables(asked, 100, TREES, [of(exact, 0)])
    assert {table.clique for table in found if table.stddev} == set(left)
    ((held, error),) = [(table.clique, table.error) for table in found if not table.stddev]
    assert (set(held), error) == (set(exact), 0.0)


def test_a_single_exact_count_and_bounds_are_no_tables():
    one = pg.LinearMeasurement.exact([3], "d", [[0, 1, 0, 0, 0]])
    bound = pg.LinearMeasurement.at_least([1, 1], "c")
    assert {table.stddev for table in measured_tables([of(["d"]), of(["c"])], 100, TREES, [one, bound])} == {1.0}
