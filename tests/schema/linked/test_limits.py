"""What linked tables do not keep at any budget is said by the schema, its check and its plan, with what to do."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import SchemaError
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.schema import LinkedSchema
from pgmest.synthesizer.linked_plan import plan_linked

THREE = """
tables:
  patients: {key: patient, columns: {sex: {type: categorical, values: [f, m], outside: clip}}}
  visits:
    parent: patients
    key: patient
    at_most: 3
    columns: {ward: {type: categorical, values: [A, B], outside: clip}}
  diagnoses:
    parent: visits
    key: [patient, visit]
    at_most: 3
    columns: {code: {type: categorical, values: [A00, I10, O80], outside: clip}}
"""
GRANDPARENT = "what a row of 'diagnoses' has to do with its row of 'patients' is not measured at any budget"
FOLLOWING = "columns of patients, visits that follow from the rows below"


def hospital(count: int = 800) -> dict[str, pd.DataFrame]:
    """Return patients, visits and diagnoses, of which women alone have the code O80."""
    rng = np.random.default_rng(0)
    patients = pd.DataFrame({"patient": range(count), "sex": rng.choice(["f", "m"], count)})
    number = rng.integers(0, 4, count)
    visits = pd.DataFrame({"patient": np.repeat(range(count), number), "ward": rng.choice(["A", "B"], number.sum())})
    visits["visit"] = visits.groupby("patient").cumcount() + 1
    diagnoses = visits.loc[np.repeat(visits.index, rng.integers(0, 4, len(visits))), ["patient", "visit"]]
    diagnoses = diagnoses.reset_index(drop=True)
    female = patients["sex"].to_numpy()[diagnoses["patient"]] == "f"
    births = female & (rng.random(len(female)) < 0.4)
    diagnoses["code"] = np.where(births, "O80", rng.choice(["I10", "A00"], len(female)))
    return {"patients": patients, "visits": visits, "diagnoses": diagnoses}


def test_check_and_plan_say_what_no_budget_keeps():
    schema = LinkedSchema.parse(THREE)
    check = schema.check(hospital())
    for text in (GRANDPARENT, FOLLOWING):
        assert text in str(check)
        assert any(text in limit for limit in json.loads(json.dumps(check.to_json()))["not_kept"])
    assert check.alarming == ()
    plan = plan_linked(schema, LinkedLAMP(epsilon=1.0), 100)
    assert f"not forecast: {GRANDPARENT}" in str(plan)
    assert all("patients." not in name for name in plan.errors.errors["diagnoses"]["between"])
    assert any("patients." in name for name in plan.errors.errors["visits"]["between"])


@pytest.mark.parametrize(
    ("old", "new", "lost", "left"),
    [
        ("{ward: {type: categorical, values: [A, B], outside: clip}}", "{}", None, GRANDPARENT),
        ("{key: patient, columns: {sex: {type: categorical, values: [f, m], outside: clip}}}", "{key: patient}",
         GRANDPARENT, "columns of visits that follow"),
    ],
)  # fmt: skip
def test_a_limit_is_said_where_it_concerns_the_schema(old, new, lost, left):
    assert old in THREE
    limits = " ".join(LinkedSchema.parse(THREE.replace(old, new)).limits)
    assert lost is None or lost not in limits
    assert left in limits


def test_a_rule_about_a_grandparent_is_refused_with_the_reason():
    rule = "    within:\n      - impossible: {sex: m, code: O80}\n"
    with pytest.raises(SchemaError, match="not about rows further above"):
        LinkedSchema.parse(THREE + rule)


def test_the_advice_on_grandparents_works():
    """The columns of the grandparent that are repeated in the parent are measured with the rows, and rules hold."""
    tables = hospital()
    tables["visits"]["own_sex"] = tables["patients"]["sex"].to_numpy()[tables["visits"]["patient"]]
    text = THREE.replace(
        "    columns: {ward: {type: categorical, values: [A, B], outside: clip}}\n",
        "    columns: {own_sex: {type: categorical, values: [f, m], outside: clip}}\n"
        "    within: [{impossible: {sex: f, own_sex: m}}, {impossible: {sex: m, own_sex: f}}]\n",
    )
    schema = LinkedSchema.parse(text + "    within:\n      - impossible: {own_sex: m, code: O80}\n")
    made = pg.Synthesizer(epsilon=5.0, backend="simulation").fit(tables, schema, seed=0).sample(seed=0)
    rows = made["diagnoses"].merge(made["visits"], on=["patient", "visit"]).merge(made["patients"], on="patient")
    assert (rows["sex"] == rows["own_sex"]).all()
    assert (rows.loc[rows["code"] == "O80", "sex"] == "f").all()
    assert (rows["code"] == "O80").mean() == pytest.approx((tables["diagnoses"]["code"] == "O80").mean(), abs=0.03)
