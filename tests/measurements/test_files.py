"""Measurement files: what is saved comes back, what people write is read, and damage is named."""

import contextlib
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from pgmest import Domain, queries
from pgmest.errors import ArgumentError, FileFormatError
from pgmest.measurements.files import load_measurements, save_measurements
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.queries import Kron

DOMAIN = Domain({"age": 5, "sex": 2, "job": 3})
REMEDY = "See help(pgmest.measurements.files) for the format."


def every_measurement():
    rng = np.random.default_rng(0)
    one_attribute = [
        queries.total(5),
        queries.point(5, 3),
        queries.interval(5, 1, 4),
        queries.subset(5, [0, 4]),
        queries.prefix(5),
        queries.compress(5, [0, 0, 2, 1, 1], count=4),
        queries.mean(5),
        queries.moments(5, 2, rng.normal(size=5)),
        queries.all_range(5),
        queries.haar(5),
        queries.hierarchical(5, 3),
        rng.normal(size=(2, 5)),
        sparse.csr_array(rng.uniform(size=(4, 5)) * (rng.random((4, 5)) < 0.4)),
    ]
    measurements = [LinearMeasurement(rng.normal(size=6), ("job", "sex"), stddev=rng.uniform(1, 2, size=6))]
    measurements += [
        LinearMeasurement(rng.normal(size=query.shape[0]), "age", stddev=1 / 3, query=query) for query in one_attribute
    ]
    kron = Kron({"sex": [[1.0, -1.0]], "age": queries.prefix(5)})
    measurements.append(LinearMeasurement(rng.normal(size=5), ("age", "sex"), 2.0, kron, noise="discrete_laplace"))
    measurements.append(LinearMeasurement(1e100, (), stddev=0.1, noise="laplace"))
    return measurements


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_what_is_saved_comes_back_exactly(tmp_path, ending):
    path = tmp_path / f"measurements.{ending}"
    saved = every_measurement()
    save_measurements(path, saved)
    loaded = load_measurements(path, DOMAIN)
    assert len(loaded) == len(saved)
    for before, after in zip(saved, loaded, strict=True):
        assert (after.clique, after.noise) == (before.clique, before.noise)
        np.testing.assert_array_equal(after.values, before.values)
        np.testing.assert_array_equal(after.stddev, before.stddev)
        assert type(after.query) is type(before.query)
        assert repr(after) == repr(before) or "sparse" in repr(before)
        if before.query is not None:
            np.testing.assert_array_equal(after.query.matrix(), before.query.matrix())
        if isinstance(before.query, Kron):
            assert after.query.attributes == before.query.attributes
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]


def test_no_measurements_come_back_as_none(tmp_path):
    for name in ("empty.json", "empty.npz"):
        save_measurements(tmp_path / name, [])
        assert load_measurements(tmp_path / name, DOMAIN) == []


def test_the_noise_may_be_given_by_its_own_parameter(tmp_path):
    path = tmp_path / "m.json"
    noises = ["gaussian", "laplace", "discrete_gaussian", "discrete_laplace"]
    write(path, [{"clique": ["sex"], "values": [1, 2], "noise": noise, "scale": 2.0} for noise in noises])
    stddevs = [float(measurement.stddev) for measurement in load_measurements(path, DOMAIN)]
    np.testing.assert_allclose(stddevs, [2.0, 2 * np.sqrt(2), 2.0, 1 / (np.sqrt(2) * np.sinh(0.25))])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "m.json"
    save_measurements(path, every_measurement())
    before = path.read_bytes()
    unknown = LinearMeasurement([1.0], "sex", query=aslinearoperator(np.ones((1, 2))))
    for name in ("m.json", "m.npz"):
        with pytest.raises(ArgumentError, match="a LinearOperator query cannot be saved; measure with its matrix"):
            save_measurements(tmp_path / name, [unknown])
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.json"]


def write(path, measurements, **header):
    document = {"format": "pgmest-measurements", "version": 1, **header, "measurements": measurements}
    path.write_text(json.dumps(document))


GOOD = {"clique": ["sex"], "values": [1.0, 2.0], "stddev": 1.0}
AGE = {"clique": ["age"], "values": [1.0, 2.0], "stddev": 1.0}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (7, " is not an object."),
        (
            {**GOOD, "sttdev": 2},
            " has unknown fields sttdev; known are clique, values, noise, stddev, scale, query, comment.",
        ),
        ({"values": [1.0], "stddev": 1}, ", field 'clique': must be a list of attribute names, got None."),
        ({**GOOD, "clique": "sex"}, ", field 'clique': must be a list of attribute names, got 'sex'."),
        (
            {**GOOD, "clique": ["sxe"]},
            ", field 'clique': 'sxe' is not an attribute of the domain (age, sex, job). Did you mean 'sex'?",
        ),
        (
            {**GOOD, "clique": ["sex", "sex"]},
            ", field 'clique': the clique ('sex', 'sex') names sex more than once; name each attribute once.",
        ),
        ({"clique": ["sex"], "stddev": 1}, ", field 'values': is missing."),
        ({**GOOD, "values": [1.0, "2"]}, ", field 'values': must hold numbers only."),
        ({**GOOD, "values": [1.0, None]}, ", field 'values': must hold numbers only."),
        (
            {**GOOD, "values": [[1.0], [2.0, 3.0]]},
            ", field 'values': is nested unevenly; give a flat list, or rows of equal length.",
        ),
        ({**GOOD, "values": {"x": 1}}, ", field 'values': must be numbers, got an object with x."),
        (
            {**GOOD, "values": {"array": "a"}},
            ", field 'values': names the array 'a', which only an .npz file can hold.",
        ),
        (
            {**GOOD, "values": [1.0, float("nan")]},
            ", field 'values': the measurement of ('sex',): values: 1 NaN or infinite, the first at index [1]. "
            "Give finite numbers.",
        ),
        (
            {**GOOD, "values": [1.0]},
            ", field 'values': the values measured on ('sex',): expected shape (2,), got (1,). "
            "Give one value for each of the 2 cells of {'sex': 2}, or name the query= answered.",
        ),
        (
            {**GOOD, "noise": "cauchy"},
            ", field 'noise': 'cauchy' is not one of gaussian, laplace, discrete_gaussian, discrete_laplace.",
        ),
        (
            {**GOOD, "noise": ["laplace"]},
            ", field 'noise': ['laplace'] is not one of gaussian, laplace, discrete_gaussian, discrete_laplace.",
        ),
        (
            {"clique": ["sex"], "values": [1, 2]},
            ": give either 'stddev' or 'scale', a positive number or one for each value.",
        ),
        ({**GOOD, "scale": 1.0}, ": give either 'stddev' or 'scale', a positive number or one for each value."),
        ({**GOOD, "stddev": 0}, ", field 'stddev': must be positive and finite."),
        (
            {**GOOD, "stddev": [1, 2, 3]},
            ", field 'stddev': the measurement of ('sex',): stddev: expected shape () or (2,), got (3,).",
        ),
        ({**GOOD, "query": 3}, ', field \'query\': a query is a kind such as "prefix", or an object with a "kind".'),
        (
            {**GOOD, "query": "prefxi"},
            ", field 'query': unknown kind 'prefxi'; it must be one of identity, total, prefix, all_range, haar, "
            "hierarchical, point, interval, subset, compress, mean, moments, matrix, sparse, kron.",
        ),
        ({**GOOD, "query": "point"}, ", field 'query': point lacks code; it takes code."),
        (
            {**GOOD, "query": {"kind": "prefix", "code": 1}},
            ", field 'query': prefix has unknown fields code; it takes no fields.",
        ),
        (
            {**GOOD, "query": {"kind": "point", "code": 1}},
            ", field 'query': the measurement of ('sex',): values: expected shape (1,), got (2,). "
            "Give one value for each query.",
        ),
        (
            {**AGE, "query": {"kind": "matrix", "rows": [[1, 0], [0, 1]]}},
            ", field 'query': the query measured on ('age',): expected shape (rows, 5), got (2, 2). "
            "Give it one column for each of the 5 cells of {'age': 5}, row-major.",
        ),
        (
            {**AGE, "query": {"kind": "matrix", "rows": [[1, 0], [0]]}},
            ", field 'query': a query matrix must hold real numbers in rows of equal length, got [[1, 0], [0]].",
        ),
        (
            {**AGE, "query": "all_range"},
            ", field 'query': all_range has at least 15 answers here, but there are only 2 values.",
        ),
        (
            {**AGE, "query": {"kind": "compress", "mapping": [0, 0, 1, 1, 1], "count": 10**12}},
            ", field 'query': compress has at least 1,000,000,000,000 answers here, but there are only 2 values.",
        ),
        (
            {**AGE, "query": {"kind": "moments", "k": 10**12}},
            ", field 'query': moments has at least 1,000,000,000,000 answers here, but there are only 2 values.",
        ),
        (
            {**AGE, "query": {"kind": "sparse", "shape": [10**12, 5], "row": [], "column": [], "value": []}},
            ", field 'query': sparse has at least 1,000,000,000,000 answers here, but there are only 2 values.",
        ),
        (
            {**AGE, "query": {"kind": "sparse", "shape": [2, 4], "row": [], "column": [], "value": []}},
            ", field 'query': a sparse query of shape (2, 4): expected 5 columns.",
        ),
        (
            {**AGE, "query": {"kind": "sparse", "shape": [2, 5], "row": [0.5], "column": [0], "value": [1]}},
            ", field 'query': the row and column of a sparse query must be integers.",
        ),
        (
            {**AGE, "query": {"kind": "kron", "factors": {"age": "prefix"}}},
            ", field 'query': the \"factors\" of a kron are pairs [attribute, query].",
        ),
        (
            {**AGE, "query": {"kind": "kron", "factors": [["sex", "prefix"]]}},
            ", field 'query': 'sex' is not an attribute of the clique (age).",
        ),
        (
            {**AGE, "query": {"kind": "kron", "factors": [["age", {"kind": "kron", "factors": []}]]}},
            ", field 'query': a kron cannot be a factor of a kron.",
        ),
        (
            {**AGE, "query": {"kind": "kron", "factors": [["age", "total"], ["age", "total"]]}},
            ", field 'query': the query names age more than once; name each attribute once.",
        ),
    ],
)
def test_a_measurement_that_cannot_be_used_is_named(tmp_path, entry, problem):
    path = tmp_path / "m.json"
    write(path, [GOOD, entry])
    with pytest.raises(FileFormatError) as error:
        load_measurements(path, DOMAIN)
    assert str(error.value) == f"{path}: measurements[1]{problem} {REMEDY}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not valid JSON (Expecting value: line 1 column 1 (char 0))."),
        (
            '{"format": "pgmest-measurements", "version"',
            "not valid JSON (Expecting ':' delimiter: line 1 column 44 (char 43)).",
        ),
        ("[" * 100_000, "nested too deeply."),
        ("[]", 'not a measurement file: "format" is not "pgmest-measurements".'),
        ('{"format": 1, "format": 2}', "not valid JSON ('format' appears twice in one object)."),
        ('{"format": "pgmest-measurements", "version": 1}', '"measurements" is not a list.'),
        ('{"format": "pgmest-measurements", "version": 1, "x": 0, "measurements": []}', "unknown fields x."),
    ],
)
def test_a_file_that_is_not_of_the_format_is_named(tmp_path, text, problem):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(FileFormatError) as error:
        load_measurements(path, DOMAIN)
    assert str(error.value) == f"{path}: {problem} {REMEDY}"


def test_other_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    write(path, [], version=3)
    with pytest.raises(FileFormatError, match=r"version 3, this pgmest reads versions 1 to 2\. Upgrade pgmest\."):
        load_measurements(path, DOMAIN)
    monkeypatch.setattr("pgmest.measurements.files.read.MOST_BYTES", 10)
    with pytest.raises(FileFormatError, match=r"m.json: holds 67 bytes, more than the 10 bytes allowed"):
        load_measurements(path, DOMAIN)
    for missing in ("gone.json", "gone.npz"):
        with pytest.raises(
            FileFormatError, match=f"{missing}: cannot be read: No such file or directory. Check the path."
        ):
            load_measurements(tmp_path / missing, DOMAIN)
    for use in (lambda name: load_measurements(name, DOMAIN), lambda name: save_measurements(name, [])):
        with pytest.raises(FileFormatError, match=r"m.csv: ends in neither .json nor .npz. Give it one"):
            use(tmp_path / "m.csv")
    with pytest.raises(FileFormatError, match="cannot be written: No such file or directory"):
        save_measurements(tmp_path / "gone" / "m.npz", [])


def test_a_clique_too_large_to_estimate_is_refused_before_it_is_built(tmp_path):
    path = tmp_path / "m.json"
    write(path, [{"clique": ["a", "b"], "query": {"kind": "subset", "members": [0]}, "values": [1], "stddev": 1}])
    with pytest.raises(FileFormatError, match="its table has 10,000,000,000 cells, more than can be estimated"):
        load_measurements(path, {"a": 100_000, "b": 100_000})


def test_arrays_of_an_archive_are_checked_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"

    def load(values, **arrays):
        document = {"format": "pgmest-measurements", "version": 1, "measurements": values}
        header = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
        np.savez(path, header=header, **arrays)
        return load_measurements(path, DOMAIN)

    entry = {"clique": ["sex"], "values": {"array": "a"}, "stddev": 1.0}
    assert load([entry], a=np.array([1, 2], dtype=np.int16))[0].values.tolist() == [1.0, 2.0]
    for entries, arrays, problem in (
        ([entry], {}, "names the array 'a', which is missing or used twice"),
        ([entry, entry], {"a": np.ones(2)}, "names the array 'a', which is missing or used twice"),
        (
            [entry],
            {"a": np.array([{}, {}])},
            r"names the array 'a', which cannot be read \(holds object, not numbers\)",
        ),
        ([entry], {"a": np.array(["x", "y"])}, r"names the array 'a', which cannot be read \(holds <U1, not numbers\)"),
    ):
        with pytest.raises(FileFormatError, match=rf"measurements\[\d\], field 'values': {problem}"):
            load(entries, **arrays)
    np.savez(path, a=np.ones(2))
    with pytest.raises(FileFormatError, match=r"not a measurement file \(names the array 'header'"):
        load_measurements(path, DOMAIN)
    load([entry], a=np.ones(2))
    monkeypatch.setattr("pgmest.measurements.files.read.MOST_BYTES", 100)
    with pytest.raises(FileFormatError, match=r"m.npz: holds .* bytes, more than the 100 bytes allowed"):
        load_measurements(path, DOMAIN)


def test_a_shape_larger_than_its_data_is_not_allocated(tmp_path):
    path = tmp_path / "m.npz"
    save_measurements(path, [LinearMeasurement([1.0, 2.0], "sex")])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["measurements/0/values.npy"] = members["measurements/0/values.npy"].replace(
        b"(2,), }" + b" " * 14, b"(2000000000000,), }  "
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(FileFormatError, match=r"its shape \(2000000000000,\) does not fit its 144 bytes"):
        load_measurements(path, DOMAIN)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), ending=st.sampled_from(["json", "npz"]))
def test_damage_is_a_file_format_error(tmp_path_factory, data, ending):
    """A truncated or altered file either reads or fails with that error; any other exception fails this test."""
    path = tmp_path_factory.mktemp("damage") / f"m.{ending}"
    save_measurements(path, every_measurement()[::4])
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(FileFormatError):
        load_measurements(path, DOMAIN)


PUBLISHED = [
    LinearMeasurement.exact([3, 4], "sex"),
    LinearMeasurement.rounded([[5, 10], [0, 5], [20, 25]], ("age", "sex"), 5, random=True),
    LinearMeasurement.suppressed([12, np.nan, np.inf], "age", 10, least=1),
    LinearMeasurement.between([1, 2, 3], [4, 5, np.inf], "age", query=queries.prefix(3)),
]


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_published_tables_survive(tmp_path, ending):
    path = tmp_path / f"m{ending}"
    save_measurements(path, PUBLISHED)
    for one, other in zip(PUBLISHED, load_measurements(path, {"age": 3, "sex": 2}), strict=True):
        np.testing.assert_array_equal(one.low, other.low)
        np.testing.assert_array_equal(one.high, other.high)
        assert one.base == other.base
        np.testing.assert_array_equal(one.published, other.published)
        assert (one.noise, one.clique, repr(one)) == (other.noise, other.clique, repr(other))


def test_percentages_in_files(tmp_path):
    path = tmp_path / "m.json"
    entry = '{"clique": ["sex"], "values": [33.3, 66.7], "percent_of": 120, "decimals": 1}'
    path.write_text(f'{{"format": "pgmest-measurements", "version": 2, "measurements": [{entry}]}}')
    (made,) = load_measurements(path, {"sex": 2})
    np.testing.assert_array_equal(made.low, [40, 80])
    np.testing.assert_array_equal(made.high, [40, 80])


def test_noisy_tables_alone_are_written_as_version_1(tmp_path):
    save_measurements(tmp_path / "m.json", [LinearMeasurement([3.0, 4.0], "sex", 2.0)])
    assert '"version": 1' in (tmp_path / "m.json").read_text()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"clique": ["sex"], "values": [1, 2], "exact": False}, "must be true"),
        ({"clique": ["sex"], "values": [1, 2], "rounded": "5"}, "must be a number"),
        ({"clique": ["sex"], "values": [1, 2], "rounded": 0}, "base must be at least 1"),
        ({"clique": ["sex"], "values": [1, 2], "rounded": 5, "random": 1}, "true or false"),
        ({"clique": ["sex"], "values": [1, 2], "exact": True, "stddev": 3}, "unknown fields stddev"),
        ({"clique": ["sex"], "values": [5, None], "suppressed": 10}, "below the threshold"),
        ({"clique": ["sex"], "low": [1, 2]}, "'high': is missing"),
        ({"clique": ["sex"], "low": [1, 2], "high": [0, 3]}, "low is above high"),
        ({"clique": ["sex"], "low": [None, 2], "high": [0, 3]}, "finite"),
        ({"clique": ["sex"], "values": [None, 2], "exact": True}, "numbers"),
        ({"clique": ["sex"], "values": [1, 2, 3], "exact": True}, "expected shape"),
    ],
)
def test_wrong_published_tables_are_refused(tmp_path, entry, message):
    path = tmp_path / "m.json"
    write(path, [entry], version=2)
    with pytest.raises(FileFormatError, match=message):
        load_measurements(path, {"age": 3, "sex": 2})
