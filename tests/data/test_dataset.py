"""Datasets: what they are made of, their marginals, and the errors of bad records."""

from __future__ import annotations

import itertools
import sys
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest.data import dataset as dataset_module
from pgmest.data.dataset import Dataset
from pgmest.errors import (
    ArgumentError,
    CodeRangeError,
    DataError,
    DomainError,
    DuplicateAttributeError,
    OptionalDependencyError,
    ShapeError,
    UnknownAttributeError,
)
from pgmest.tables.domain import Domain

DOMAIN = Domain({"age": 3, "sex": 2, "income": 2})
CODES = np.array([[0, 1, 0], [2, 1, 1], [2, 0, 1], [2, 1, 1]])
COLUMNS = {"age": [0, 2, 2, 2], "sex": [1, 1, 0, 1], "income": [0, 1, 1, 1]}


@pytest.fixture
def data() -> Dataset:
    return Dataset.from_codes(CODES, DOMAIN)


@pytest.fixture
def weighted() -> Dataset:
    return Dataset.from_codes(CODES, DOMAIN, weights=[1, 0.5, 2, 0.25])


@st.composite
def datasets(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    domain = Domain({f"a{i}": size for i, size in enumerate(shape)})
    records = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, size, records) for size in shape], axis=1)
    return Dataset.from_codes(codes, domain, rng.random(records) if draw(st.booleans()) else None)


def by_dictionary(data: Dataset, clique: tuple[str, ...]) -> np.ndarray:
    """The marginal, counted record by record."""
    counts: Counter = Counter()
    axes = data.domain.axes(clique)
    for row, record in enumerate(data.codes):
        counts[tuple(record[axis] for axis in axes)] += 1 if data.weights is None else data.weights[row]
    domain = data.domain.project(clique)
    return np.array([counts[cell] for cell in itertools.product(*map(range, domain.shape))]).reshape(domain.shape)


# -- marginals ------------------------------------------------------------------------------------------------------


def test_project_counts_records_with_axes_in_the_order_asked_for(data):
    assert data.project(("age", "sex")).values.tolist() == [[0, 1], [0, 0], [1, 2]]
    assert data.project(("sex", "age")).values.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert data.project(("sex", "age")).domain == Domain({"sex": 2, "age": 3})
    assert data.project("income").values.tolist() == [1, 3]
    assert data.project(["income"]).values.dtype == np.float64


def test_project_sums_weights(weighted):
    assert weighted.project(("age", "sex")).values.tolist() == [[0, 1], [0, 0], [2, 0.75]]
    assert weighted.total == 3.75


def test_project_on_no_attributes_is_the_total(data, weighted):
    assert float(data.project(())) == data.total == 4.0
    assert float(weighted.project(())) == 3.75
    assert [float(table) for table in data.project_many([(), ()])] == [4.0, 4.0]


def test_project_of_no_records_is_zero():
    empty = Dataset.from_codes(np.empty((0, 3), dtype=int), DOMAIN)
    assert empty.project(("age", "sex")).values.tolist() == [[0, 0], [0, 0], [0, 0]]
    assert empty.total == float(empty.project(())) == 0.0


@given(datasets(), st.data())
def test_project_equals_a_dictionary_of_records(data, draw):
    clique = tuple(draw.draw(st.permutations(data.domain.attributes)))[: draw.draw(st.integers(0, len(data.domain)))]
    factor = data.project(clique)
    assert factor.domain == data.domain.project(clique)
    np.testing.assert_allclose(factor.values, by_dictionary(data, clique), rtol=1e-12)


@given(datasets(), st.data())
def test_project_many_equals_project(data, draw):
    subsets = st.lists(st.sampled_from(data.domain.attributes), unique=True).map(tuple)
    cliques = draw.draw(st.lists(subsets, max_size=8))
    tables = data.project_many(cliques)
    assert [table.domain.attributes for table in tables] == cliques
    for clique, table in zip(cliques, tables, strict=True):
        np.testing.assert_allclose(table.values, data.project(clique).values, rtol=1e-12)


def test_many_tables_of_many_records_are_counted_together(monkeypatch):
    monkeypatch.setattr(dataset_module, "TOGETHER_STEPS", 1)
    together = []
    plain = dataset_module.count_tables
    monkeypatch.setattr(dataset_module, "count_tables", lambda *given: together.append(given[2]) or plain(*given))
    data = Dataset.from_codes(np.tile(CODES, (4, 1)), DOMAIN).remembering()
    cliques = [("sex", "age"), ("age", "sex"), ("income",), ("income", "sex")]
    for _ in range(2):  # the second time they are remembered
        for clique, table in zip(cliques, data.project_many(cliques), strict=True):
            np.testing.assert_array_equal(table.values, by_dictionary(data, clique))
    assert [len(pairs) for pairs in together] == [2]
    weighted = Dataset(DOMAIN, data.columns, data.records, np.ones(data.records))
    weighted.project_many(cliques)
    assert len(together) == 1


@pytest.mark.parametrize(("quickly", "expected"), [(0, {"ab", "bc", "abcd"}), (10**6, {"ab", "bc", "abd", "abcd"})])
def test_tables_inside_others_are_summed_where_counting_is_slow(quickly, expected, monkeypatch):
    monkeypatch.setattr(dataset_module, "TOGETHER_STEPS", 1)
    monkeypatch.setattr(dataset_module, "QUICKLY_COUNTED", quickly)
    together = []
    plain = dataset_module.count_tables
    monkeypatch.setattr(dataset_module, "count_tables", lambda *given: together.extend(given[2]) or plain(*given))
    codes = np.random.default_rng(0).integers(0, 2, (40, 4))
    data = Dataset.from_codes(codes, dict.fromkeys("abcd", 2))
    cliques = [tuple("ab"), tuple("cb"), tuple("bad"), tuple("abcd")]
    tables = data.project_many(cliques)
    assert {"".join(sorted("abcd"[axis] for axis in axes)) for axes in together} == expected
    for clique, table in zip(cliques, tables, strict=True):
        np.testing.assert_array_equal(table.values, by_dictionary(data, clique))


def test_datavectors_are_the_marginals_in_one_row_each():
    data = Dataset.from_codes(CODES, DOMAIN).remembering()
    cliques = [("sex", "age"), ("age", "sex"), ("income",), ()]
    for _ in range(2):  # the second time they are remembered
        for clique, cells in zip(cliques, data.datavectors(cliques), strict=True):
            np.testing.assert_array_equal(cells, by_dictionary(data, clique).reshape(-1))


def test_project_many_reads_the_records_only_where_no_smaller_table_covers_a_clique(monkeypatch):
    counted = []
    plain = dataset_module.count_cells
    monkeypatch.setattr(
        dataset_module,
        "count_cells",
        lambda columns, domain, weights: counted.append(domain) or plain(columns, domain, weights),
    )
    data = Dataset.from_codes(np.tile(CODES, (4, 1)), DOMAIN)  # 16 records, a joint table of 12 cells
    data.project_many([("sex",), ("sex", "age"), ("age", "sex"), ("age", "sex", "income"), ()])
    assert [domain.attributes for domain in counted] == [("age", "sex", "income")]
    counted.clear()
    data.take(slice(0, 12)).project_many([("sex",), ("age", "sex", "income")])  # no fewer cells than records
    assert len(counted) == 2


@given(datasets(), st.data())
def test_what_is_remembered_equals_what_is_counted(data, draw):
    subsets = st.lists(st.sampled_from(data.domain.attributes), unique=True).map(tuple)
    remembering = data.remembering()
    assert remembering == data
    for cliques in draw.draw(st.lists(st.lists(subsets, max_size=5), max_size=4)):
        for table, counted in zip(remembering.project_many(cliques), data.project_many(cliques), strict=True):
            assert table.domain == counted.domain
            np.testing.assert_allclose(table.values, counted.values, rtol=1e-12)


def test_a_remembered_table_is_not_counted_again(monkeypatch):
    data = Dataset.from_codes(np.tile(CODES, (4, 1)), DOMAIN).remembering()
    first = data.project_many([("age", "sex")])[0]
    monkeypatch.setattr(dataset_module, "count_cells", lambda *_: pytest.fail("counted again"))
    np.testing.assert_array_equal(data.project_many([("sex", "age")])[0].values, first.values.T)
    np.testing.assert_array_equal(data.project_many([("sex",), ("age", "sex")])[0].values, first.values.sum(axis=0))


def test_no_more_is_remembered_than_fits(monkeypatch):
    monkeypatch.setattr(dataset_module, "REMEMBERED_CELLS", DOMAIN["sex"])
    data = Dataset.from_codes(CODES, DOMAIN).remembering()
    data.project_many([("age",), ("sex",)])
    assert data._kept == {frozenset({"sex"}): data._kept[frozenset({"sex"})]}


def test_project_names_an_unknown_attribute(data):
    with pytest.raises(UnknownAttributeError, match="Did you mean 'income'"):
        data.project(("age", "incme"))
    with pytest.raises(DuplicateAttributeError):
        data.project(("age", "age"))


def test_marginal_of_a_real_table_equals_a_group_by(shared_data):
    adult = shared_data("adult14")
    clique = ["occupation", "sex", "income>50K"]
    expected = (
        adult.to_frame()
        .groupby(clique)
        .size()
        .reindex(pd.MultiIndex.from_product([range(adult.domain[name]) for name in clique]), fill_value=0)
    )
    assert adult.records == 48842
    np.testing.assert_array_equal(adult.project(clique).datavector(), expected.to_numpy())


# -- making one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS)[["income", "sex", "age"]].set_index("income", drop=False),
        pd.DataFrame(COLUMNS).assign(name=["x", None, "y", "z"]),
        pd.DataFrame(COLUMNS).astype({"age": float, "sex": bool, "income": "Int64"}),
        pd.DataFrame(COLUMNS).astype({"age": "category", "sex": object, "income": "uint8"}),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).with_columns(pl.col("sex").cast(pl.Boolean), pl.col("age").cast(pl.Float32)),
        pa.table(COLUMNS),
        pa.table({**COLUMNS, "age": pa.chunked_array([[0, 2], [2, 2]])}),
    ],
    ids=itertools.count(),
)
def test_every_kind_of_frame_gives_the_same_dataset(frame, data):
    assert Dataset.from_frame(frame, DOMAIN) == data


def test_plain_mapping_serves_as_domain():
    assert Dataset.from_frame(pd.DataFrame(COLUMNS), dict(DOMAIN)).domain == DOMAIN


def test_weights_are_a_column_or_an_array(weighted):
    frame = pd.DataFrame(COLUMNS).assign(w=weighted.weights)
    assert Dataset.from_frame(frame, DOMAIN, weights="w") == weighted
    assert Dataset.from_frame(frame, DOMAIN, weights=weighted.weights) == weighted
    assert Dataset.from_frame(frame, DOMAIN).weights is None


def test_missing_columns_are_named_with_those_that_exist():
    frame = pd.DataFrame({"Age": [0], "income": [1]})
    with pytest.raises(DataError) as caught:
        Dataset.from_frame(frame, DOMAIN, weights="w")
    assert str(caught.value) == (
        "the table has no column 'age' (did you mean 'Age'?), 'sex', 'w'. Its columns are: Age, income. "
        "Rename its columns to the domain's attributes, or leave these attributes out of the domain."
    )


def test_many_missing_columns_are_cut_short():
    domain = Domain({f"a{i}": 2 for i in range(20)})
    with pytest.raises(DataError, match=r"'a11', \.\.\. \(20 in all\)\. Its columns are: b\."):
        Dataset.from_frame(pd.DataFrame({"b": [0]}), domain)


@pytest.mark.parametrize(
    ("column", "shown", "row"),
    [
        (pd.Series([0, 1, None]), "nan", 2),
        (pd.Series([0, 1, None], dtype="Int64"), "nan", 2),
        (pd.Series(["m", "f", "f"]), "'m'", 0),
        (pd.Series([0, 1.5, 1]), "1.5", 1),
        (pl.Series([None, 1, 0]), "nan", 0),
        (pl.Series([True, None, False]), "None", 1),
        (pl.Series(["m", "f", "f"], dtype=pl.Categorical), "'m'", 0),
    ],
    ids=itertools.count(),
)
def test_value_that_is_no_code_is_named(column, shown, row):
    frame = (pd if isinstance(column, pd.Series) else pl).DataFrame({"sex": column})
    with pytest.raises(DataError) as caught:
        Dataset.from_frame(frame, {"sex": 2})
    assert str(caught.value) == (
        f"column 'sex', row {row}: {shown} is not an integer code. "
        "Recode the column to integers 0..1; give missing values a separate code."
    )


def test_code_out_of_range_is_named():
    with pytest.raises(CodeRangeError, match=r"^column 'age', row 1: value 3 is not a code in 0\.\.2\."):
        Dataset.from_frame(pd.DataFrame({**COLUMNS, "age": [0, 3, 0, -1]}), DOMAIN)


def test_rows_are_counted_by_position_and_not_by_label():
    frame = pd.DataFrame({"a": [0, 7]}, index=[10, 20])
    with pytest.raises(CodeRangeError, match="row 1: value 7"):
        Dataset.from_frame(frame, {"a": 2})


@pytest.mark.parametrize("frame", [pd.DataFrame(COLUMNS).iloc[:0], pl.DataFrame(COLUMNS).lazy().limit(0)])
def test_a_frame_without_rows_is_a_dataset_without_records(frame):
    data = Dataset.from_frame(frame, DOMAIN)
    assert (data.records, data.total) == (0, 0)
    assert not data.project(DOMAIN.attributes).values.any()


def test_frame_for_a_domain_without_attributes_is_refused():
    with pytest.raises(DataError, match=r"^the domain has no attributes, so no record can be read;"):
        Dataset.from_frame(pd.DataFrame(COLUMNS), {})


def test_columns_of_one_name_are_refused():
    with pytest.raises(DataError, match=r"^the table has several columns of one name \(.*'a'.*\); keep one of each\.$"):
        Dataset.from_frame(pd.DataFrame([[0, 1]], columns=["a", "a"]), {"a": 2})


@pytest.mark.parametrize("thing", [None, "data.csv", np.zeros((2, 2)), pd.Series([1])])
def test_something_else_than_a_frame_is_refused(thing):
    with pytest.raises(ArgumentError, match=r"it must be a dataframe \(pandas, polars, pyarrow, a DuckDB relation"):
        Dataset.from_frame(thing, DOMAIN)


def test_codes_may_be_a_list_of_columns(data):
    assert Dataset.from_codes(list(COLUMNS.values()), DOMAIN) == data
    assert Dataset.from_codes([np.array(column) for column in COLUMNS.values()], DOMAIN) == data


def test_columns_are_small_read_only_and_not_the_caller_s():
    codes = np.array([[0, 299], [1, 0]])
    data = Dataset.from_codes(codes, {"a": 2, "b": 300})
    codes[:] = 0
    assert data.codes.tolist() == [[0, 299], [1, 0]]
    assert [column.dtype for column in data.columns] == [np.uint8, np.uint16]
    with pytest.raises(ValueError, match="read-only"):
        data.column("a")[0] = 1


def test_trusted_codes_are_neither_checked_nor_copied():
    column = np.array([0, 1, 1], dtype=np.uint8)
    data = Dataset.from_codes([column, np.array([2, 0, 9])], {"a": 2, "b": 3}, trusted=True)
    assert np.shares_memory(data.column("a"), column)
    assert data.column("b").tolist() == [2, 0, 9]
    assert column.flags.writeable
    assert Dataset.from_codes(CODES, DOMAIN, trusted=True) == Dataset.from_codes(CODES, DOMAIN)


def test_codes_of_the_wrong_shape_are_refused():
    with pytest.raises(ShapeError) as caught:
        Dataset.from_codes(CODES[:, :2], DOMAIN)
    assert str(caught.value) == "codes: expected shape (records, 3), got (4, 2). Give one column per attribute."
    with pytest.raises(ShapeError, match=r"^codes, a list of columns: expected shape \(3,\), got \(2,\)\."):
        Dataset.from_codes([[0], [1]], DOMAIN)
    with pytest.raises(ShapeError, match=r"^column 'sex': expected shape \(2,\), got \(1,\)\."):
        Dataset.from_codes([[0, 1], [1], [0, 1]], DOMAIN)
    with pytest.raises(ShapeError, match=r"^column 'age': expected shape \(records,\), got \(\)\."):
        Dataset.from_codes(DOMAIN, DOMAIN)  # pyright: ignore[reportArgumentType]


def test_codes_without_records_or_attributes_are_fine():
    for codes in (np.empty((0, 3)), [[], [], []]):
        empty = Dataset.from_codes(codes, DOMAIN, weights=[])
        assert (len(empty), empty.codes.shape, empty.total) == (0, (0, 3), 0.0)
    bare = Dataset.from_codes(np.empty((5, 0)), {})
    assert (bare.records, bare.codes.shape, float(bare.project(()))) == (5, (5, 0), 5.0)
    assert Dataset.from_codes([], {}).records == 0


# -- records --------------------------------------------------------------------------------------------------------


def test_repr_is_one_line(data, weighted):
    assert repr(data) == "Dataset(4 records, 3 attributes)"
    assert repr(weighted) == "Dataset(4 records, 3 attributes, weights summing to 3.75)"


def test_select_keeps_weights_and_takes_the_order_asked_for(weighted):
    smaller = weighted.select(("income", "age"))
    assert smaller.domain == Domain({"income": 2, "age": 3})
    assert smaller.codes.tolist() == CODES[:, [2, 0]].tolist()
    assert smaller.weights is weighted.weights
    assert float(weighted.select(()).project(())) == 3.75


def test_take_by_positions_mask_and_slice(weighted):
    for rows in ([3, 1], np.array([3, 1])):
        assert weighted.take(rows).codes.tolist() == CODES[[3, 1]].tolist()
        assert weighted.take(rows).weights.tolist() == [0.25, 0.5]
    assert weighted.take(weighted.column("sex") == 0).codes.tolist() == [[2, 0, 1]]
    assert weighted.take(slice(1, 3)) == weighted.take([1, 2])
    assert weighted.take(-1) == weighted.take([3])
    assert weighted.take([]).records == 0


@pytest.mark.parametrize("rows", [[4], [True, False], "age", [0.5]])
def test_take_refuses_rows_that_are_not_there(data, rows):
    with pytest.raises(ArgumentError, match=r"^rows=.* it must be rows of a dataset of 4 \(.+\)\.$"):
        data.take(rows)


@given(datasets(), st.integers(0, 30))
def test_concat_joins_what_take_parted(data, cut):
    assert Dataset.concat([data.take(slice(cut)), data.take(slice(cut, None))]) == data


def test_concat_counts_records_without_weights_as_one(data, weighted):
    joined = Dataset.concat([data, weighted])
    assert joined.weights.tolist() == [1, 1, 1, 1, 1, 0.5, 2, 0.25]
    assert not joined.weights.flags.writeable


def test_concat_needs_one_domain(data):
    expected = "concat needs datasets over one and the same domain, at least one; select(...) it first."
    for parts in ([], [data, data.select(("sex", "age", "income"))]):
        with pytest.raises(DomainError) as caught:
            Dataset.concat(parts)
        assert str(caught.value) == expected


def test_equality_is_of_domain_codes_order_and_weights(data, weighted):
    assert data == Dataset.from_codes(CODES, DOMAIN)
    assert data != Dataset.from_codes(CODES[::-1], DOMAIN)
    assert data != Dataset.from_codes(CODES, {**DOMAIN, "age": 4})
    assert data != weighted
    assert weighted != Dataset.from_codes(CODES, DOMAIN, weights=np.ones(4))
    assert data != "data"


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_to_frame_and_back(backend, data, weighted):
    frame = data.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    assert Dataset.from_frame(frame, DOMAIN) == data
    assert Dataset.from_frame(weighted.to_frame(backend, weights="w"), DOMAIN, weights="w") == weighted


def test_to_frame_has_wide_integers_that_arithmetic_does_not_overflow(data):
    assert set(data.to_frame().dtypes) == {np.dtype(np.int64)}


def test_to_frame_does_not_lose_weights(data, weighted):
    with pytest.raises(ArgumentError) as caught:
        weighted.to_frame()
    assert str(caught.value) == "weights=None is not valid: it must be a new name for their column."
    with pytest.raises(ArgumentError, match="weights='age' is not valid: it must be a new name for their column"):
        weighted.to_frame(weights="age")
    with pytest.raises(ArgumentError, match="weights='w' is not valid: it must be None, for a dataset without weights"):
        data.to_frame(weights="w")


def test_to_frame_knows_three_libraries(data, monkeypatch):
    with pytest.raises(ArgumentError) as caught:
        data.to_frame("dask")
    assert str(caught.value) == "backend='dask' is not valid: it must be one of 'pandas', 'polars', 'pyarrow'."
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(OptionalDependencyError) as missing:
        data.to_frame("polars")
    assert str(missing.value) == (
        "to_frame(backend='polars') needs the package 'polars', which is not installed: pip install polars."
    )


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.parquet", "DATA.CSV.GZ"])
def test_save_and_load(tmp_path, name, data, weighted):
    data.save(tmp_path / name)
    assert Dataset.load(tmp_path / name, DOMAIN) == data
    weighted.save(str(tmp_path / name), weights="w")
    assert Dataset.load(str(tmp_path / name), DOMAIN, weights="w") == weighted


@given(datasets())
def test_save_and_load_any_dataset(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    weights = None if data.weights is None else "weight of the record"
    data.save(path, weights)
    assert Dataset.load(path, data.domain, weights) == data


def test_load_names_the_file_in_every_error_about_its_content(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n0,1\n3,0\n")
    with pytest.raises(DataError, match=f"^{path}: the table has no column 'income'"):
        Dataset.load(path, DOMAIN)
    with pytest.raises(CodeRangeError, match=f"^{path}: column 'age', row 1: value 3 is not a code"):
        Dataset.load(path, {"age": 3})
    path.write_text("age,sex\n0,\n")
    with pytest.raises(DataError, match=f"^{path}: column 'sex', row 0: nan is not an integer code"):
        Dataset.load(path, {"sex": 3})
    path.write_text("age,w\n0,-1\n")
    with pytest.raises(DataError, match=f"^{path}: the weight in row 0 is -1.0"):
        Dataset.load(path, {"age": 3}, weights="w")


def test_one_bad_word_in_a_column_of_a_file_is_the_one_named(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex\n0\n1\nmale\n1\n")
    with pytest.raises(DataError, match="column 'sex', row 2: 'male' is not an integer code"):
        Dataset.load(path, {"sex": 2})


def test_load_every_attribute_of_a_wide_real_table(shared_data):
    fire = shared_data("fire")
    assert (fire.records, len(fire.domain)) == (305119, 15)
    assert fire.project("Battalion").values.sum() == 305119
