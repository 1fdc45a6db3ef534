"""Names of columns that are no texts: numbers, several levels; and indexes, which are no columns."""

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.data.frames import ReadingWarning
from pgmest.errors import DataError, FileFormatError
from pgmest.schema import Schema, draft

ARRAY = np.random.default_rng(0).integers(0, 3, (200, 2))


def fitted(frame, names):
    columns = {name: {"type": "integer", "min": 0, "max": 2} for name in names}
    return pg.Synthesizer("independent", epsilon=5.0, backend="simulation").fit(frame, {"columns": columns}, seed=0)


@pytest.mark.parametrize(
    "names", [[0, 1], [2019, 2020], [0.5, 2.0], ["a", 1], [pd.Timestamp("2020-01-01"), "x"], [(1, 2), "b"]]
)
def test_names_of_any_type_come_back(names):
    frame = pd.DataFrame(ARRAY, columns=pd.Index(names, tupleize_cols=False))
    text = draft(frame)
    assert [column.name for column in Schema.parse(text).described] == list(map(str, names))
    synthesizer = fitted(frame, names)
    made = synthesizer.sample(50, seed=0)
    assert list(made.columns) == names
    assert [type(name) for name in made.columns] == [type(name) for name in frame.columns]
    assert list(frame.columns) == names  # the table itself stays as it is
    given = synthesizer.sample(given=frame[[names[0]]][:5], seed=0)
    assert list(given.columns) == names
    assert given[names[0]].tolist() == frame[names[0]][:5].tolist()
    assert synthesizer.schema_.check(frame).rows == 200


def test_a_range_of_names_stays_one_of_integers(tmp_path):
    synthesizer = fitted(pd.DataFrame(ARRAY), [0, 1])
    assert synthesizer.sample(5, seed=0).columns.dtype == np.int64
    synthesizer.save(tmp_path / "model.npz")
    assert list(pg.Synthesizer.load(tmp_path / "model.npz").sample(5, seed=0).columns) == [0, 1]
    codes = pg.Dataset.from_frame(pd.DataFrame(ARRAY), {"0": 3, "1": 3}).codes
    assert (codes == ARRAY).all()


def test_files_have_no_names_of_columns_outside_of_the_schema(tmp_path):
    frame = pd.DataFrame(np.column_stack([ARRAY, ARRAY[:, 0]]), columns=[0, 1, 4711])
    fitted(frame, [0, 1]).save(tmp_path / "model.npz")
    assert pg.load(tmp_path / "model.npz").about["names"] == {"0": 0, "1": 1}


@pytest.mark.parametrize("names", [3, ["0"], {"0": "x"}, {"0": True}, {"0": {}}], ids=str)
def test_files_with_wrong_names_are_refused(tmp_path, names):
    synthesizer = fitted(pd.DataFrame(ARRAY), [0, 1])
    synthesizer.model_.describe(names=names)
    synthesizer.save(tmp_path / "model.npz")
    with pytest.raises(FileFormatError, match="wrong names of columns"):
        pg.Synthesizer.load(tmp_path / "model.npz")


def test_names_that_are_alike_as_texts_are_refused():
    with pytest.raises(DataError, match="several columns that read 1; keep or rename one of each"):
        draft(pd.DataFrame(ARRAY, columns=[1, "1"]))


def test_names_of_several_levels_are_refused_with_the_remedy():
    frame = pd.DataFrame(ARRAY, columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    for call in (draft, lambda table: fitted(table, ["a_x"])):
        with pytest.raises(
            DataError, match=r"names of 2 levels, such as \('a', 'x'\).*Join the levels: frame\.columns"
        ):
            call(frame)
    frame.columns = ["_".join(map(str, name)) for name in frame.columns]
    assert list(fitted(frame, frame.columns).sample(5, seed=0).columns) == ["a_x", "a_y"]


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        (pd.Index(range(200), name="id"), "'id'"),
        (pd.date_range("2020-01-01", periods=200), "of type datetime64"),
        (pd.Index([f"p{i}" for i in range(200)]), "of type "),
        (pd.MultiIndex.from_product([range(20), range(10)], names=["house", "person"]), "'house', 'person'"),
    ],
)
def test_an_index_that_says_something_is_left_out_aloud(index, shown):
    with pytest.warns(ReadingWarning, match=rf"the index of the table \({shown}.*\) is no column, so it is left out"):
        text = draft(pd.DataFrame(ARRAY, columns=["a", "b"], index=index))
    assert "# THE TABLE: the index of the table (" in text


def test_an_index_that_counts_rows_is_not_mentioned(recwarn):
    frame = pd.DataFrame(ARRAY, columns=["a", "b"])
    draft(frame)
    draft(frame[frame["a"] > 0])
    assert not recwarn.list


def test_a_wanted_index_is_named():
    frame = pd.DataFrame(ARRAY, columns=["a", "b"]).set_index("b")
    with pytest.raises(DataError, match=r"b is no column but an index of the table: give frame\.reset_index\(\)"):
        fitted(frame, ["a", "b"])
