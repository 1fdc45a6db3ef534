"""A Synthesizer's checkpoint recognizes its raw table, in every engine, also where a unit or a purchase codes it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pgmest as pg
from pgmest.errors import JournalError
from pgmest.mechanisms.notices import EndedRunWarning

AGE = {"type": "integer", "min": 0, "max": 99, "width": 10}
JOB = {"type": "categorical", "values": ["a", "b", "c"], "other": "x"}
SCHEMAS = {
    "plain": {"columns": {"age": AGE, "job": JOB}},
    "unit": {"unit": {"column": "who", "at_most": 2}, "columns": {"age": AGE, "job": JOB}},
    "bounds": {"columns": {"age": {"type": "integer", "bounds": "bought"}, "job": JOB}},
    "values": {"columns": {"age": AGE, "job": {"type": "categorical", "values": "bought"}}},
}
LIBRARIES = {"pandas": lambda frame: frame, "engine": lambda frame: pl.from_pandas(frame).lazy()}


def people(seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    who, age = generator.integers(0, 40, 200).astype(str), generator.integers(0, 90, 200)
    return pd.DataFrame({"who": who, "age": age, "job": generator.choice(["a", "b", "c"], 200)})


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_another_raw_table_is_refused_and_the_same_one_repeated(schema, library, tmp_path):
    if (schema, library) == ("values", "engine"):
        pytest.skip("an engine cannot list values")

    def fit(frame):
        synthesizer = pg.Synthesizer("independent", epsilon=1.0)
        options = {"seed": 0, "progress": False, "checkpoint": tmp_path / "run"}
        return synthesizer.fit(LIBRARIES[library](frame), SCHEMAS[schema], **options)

    first = fit(people())
    text = (tmp_path / "run").read_bytes()
    for same in (people(), people().sample(frac=1, random_state=0)):
        with pytest.warns(EndedRunWarning, match="this run ended on"):
            repeated = fit(same)
        assert [m.values.tolist() for m in repeated.result_.measurements] == [
            m.values.tolist() for m in first.result_.measurements
        ]
    one_value = people()
    one_value.loc[5, "age"], one_value.loc[5, "job"] = (one_value.loc[5, "age"] + 40) % 90, "x"
    small = () if schema == "unit" else (one_value, people()[:-1])  # rows that do not count may change
    for other in (people(1), *small):
        with pytest.raises(JournalError, match="run on other records: nothing was asked or paid"):
            fit(other)
    assert (tmp_path / "run").read_bytes() == text


def test_rows_of_a_unit_that_count_are_the_same_when_a_run_goes_on(tmp_path):
    def stop(curator):
        raise KeyboardInterrupt

    options = {"seed": 0, "checkpoint": tmp_path / "run"}
    synthesizer = pg.Synthesizer("independent", epsilon=1.0)
    with pytest.raises(KeyboardInterrupt):
        synthesizer.fit(people(), SCHEMAS["unit"], progress=stop, **options)
    synthesizer.fit(people(), SCHEMAS["unit"], progress=False, **options)
    schema = pg.Schema.from_dict(SCHEMAS["unit"])
    with pytest.raises(JournalError, match="encoded with its key"):
        synthesizer.fit(schema.encode(people(), key=bytes(16)), schema, progress=False, **options)
