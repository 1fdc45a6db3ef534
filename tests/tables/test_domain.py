"""Domain: order, projection, checks, and the JSON file."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmest import Domain
from pgmest.errors import (
    ArgumentError,
    DomainError,
    DuplicateAttributeError,
    FileFormatError,
    UnknownAttributeError,
)
from pgmest.tables.domain import as_domain

DOMAIN = Domain({"age": 85, "sex": 2, "income": 2})
REMEDY = 'A domain file is a JSON object such as {"age": 85, "sex": 2}.'


def test_a_domain_is_an_ordered_mapping():
    assert DOMAIN.attributes == ("age", "sex", "income")
    assert DOMAIN.shape == (85, 2, 2)
    assert list(DOMAIN) == ["age", "sex", "income"]
    assert dict(DOMAIN) == {"age": 85, "sex": 2, "income": 2}
    assert len(DOMAIN) == 3
    assert DOMAIN["sex"] == 2
    assert "sex" in DOMAIN
    assert "sax" not in DOMAIN
    assert DOMAIN.get("age", 1) == 85
    assert DOMAIN.get("height", 1) == 1
    assert DOMAIN.get("height") is None


def test_pairs_make_the_same_domain_as_a_mapping():
    assert Domain([("age", 85), ("sex", 2), ("income", 2)]) == DOMAIN
    assert Domain(DOMAIN) == DOMAIN
    assert Domain(iter([("a", 2)])) == Domain({"a": 2})


def test_sizes_count_cells_exactly():
    assert DOMAIN.size() == 340
    assert DOMAIN.size(("sex", "age")) == 170
    assert DOMAIN.size("age") == 85
    assert DOMAIN.size(()) == 1
    assert Domain({}).size() == 1
    assert Domain({f"x{i}": 10 for i in range(40)}).size() == 10**40


@pytest.mark.parametrize("kind", [tuple, list, set, frozenset, iter, dict.fromkeys])
def test_ordered_is_those_of_the_domain_in_axis_order(kind):
    assert DOMAIN.ordered(kind(["income", "height", "age", "income"])) == ("age", "income")
    assert DOMAIN.ordered(kind([])) == ()


def test_ordered_takes_a_domain_or_a_single_name():
    assert DOMAIN.ordered(Domain({"sex": 2, "age": 85})) == ("age", "sex")
    assert DOMAIN.ordered("age") == ("age",)


def test_projection_takes_the_order_asked_for():
    assert DOMAIN.project(("income", "age")) == Domain({"income": 2, "age": 85})
    assert DOMAIN.project("sex") == Domain({"sex": 2})
    assert DOMAIN.project(()) == Domain({})
    assert DOMAIN.project(name for name in ("sex", "age")).attributes == ("sex", "age")


def test_without_keeps_the_order():
    assert DOMAIN.without(("sex",)).attributes == ("age", "income")
    assert DOMAIN.without(DOMAIN) == Domain({})


def test_axes_are_positions():
    assert DOMAIN.axes(("income", "age")) == (2, 0)


def test_merge_adds_what_only_the_other_has():
    assert DOMAIN.merge(Domain({"sex": 2, "race": 5})).attributes == ("age", "sex", "income", "race")
    with pytest.raises(DomainError) as raised:
        DOMAIN.merge(Domain({"sex": 3}))
    assert str(raised.value) == (
        "'sex' has 2 values in one domain and 3 in the other; rename one of them or make the sizes agree."
    )


def test_domains_are_equal_in_order_and_sizes():
    assert Domain({"a": 2, "b": 3}) != Domain({"b": 3, "a": 2})
    assert Domain({"a": 2}) != {"a": 2}
    assert len({DOMAIN, Domain(dict(DOMAIN))}) == 1
    assert pickle.loads(pickle.dumps(DOMAIN)) == DOMAIN


def test_numpy_integers_become_python_integers():
    sizes = dict(Domain({"a": np.int64(3)}))
    assert sizes == {"a": 3}
    assert type(sizes["a"]) is int


def test_repr_shows_the_sizes():
    assert repr(DOMAIN) == "Domain({'age': 85, 'sex': 2, 'income': 2})"
    assert eval(repr(DOMAIN)) == DOMAIN


@pytest.mark.parametrize("size", [0, -1, 2.0, "2", None, True, np.True_, [2], float("nan"), float("inf")])
def test_a_size_is_a_positive_integer(size):
    with pytest.raises(DomainError) as raised:
        Domain({"a": size})
    assert str(raised.value) == f"attribute 'a' must have a positive integer number of values, got {size!r}."


@pytest.mark.parametrize("name", ["", 3, None, ("a",), b"a"])
def test_a_name_is_a_non_empty_string(name):
    with pytest.raises(DomainError) as raised:
        Domain({name: 2})
    assert str(raised.value) == f"attribute names must be non-empty strings, got {name!r}."


@pytest.mark.parametrize("sizes", [["a", "b"], [("a", 2, 3)], 5, None, "a"])
def test_what_is_no_mapping_and_no_pairs_is_refused(sizes):
    with pytest.raises(DomainError) as raised:
        Domain(sizes)
    assert str(raised.value) == (
        f"a domain is a mapping of attribute to number of values, or (attribute, number) pairs, got {sizes!r}."
    )


def test_an_attribute_given_twice_is_named():
    with pytest.raises(DuplicateAttributeError) as raised:
        Domain([("b", 2), ("a", 2), ("b", 3), ("a", 2), ("c", 1)])
    assert str(raised.value) == "the domain names a, b more than once; name each attribute once."


@pytest.mark.parametrize("use", [DOMAIN.__getitem__, DOMAIN.project, DOMAIN.size, DOMAIN.axes, DOMAIN.clique])
def test_an_unknown_attribute_gets_the_nearest_name(use):
    with pytest.raises(UnknownAttributeError) as raised:
        use("incme")
    assert str(raised.value) == ("'incme' is not an attribute of the domain (age, sex, income). Did you mean 'income'?")


def test_a_clique_names_each_attribute_once():
    assert DOMAIN.clique(["sex", "age"]) == ("sex", "age")
    with pytest.raises(DuplicateAttributeError) as raised:
        DOMAIN.clique(("sex", "sex"))
    assert str(raised.value) == "the clique ('sex', 'sex') names sex more than once; name each attribute once."


def test_a_plain_mapping_serves_as_a_domain():
    assert as_domain({"a": 2}) == Domain({"a": 2})
    assert as_domain(DOMAIN) is DOMAIN
    with pytest.raises(ArgumentError) as raised:
        as_domain([("a", 2)])  # type: ignore[arg-type]
    assert str(raised.value) == (
        "domain=[('a', 2)] is not valid: it must be a pgmest.Domain or a mapping of attribute to number of values."
    )


# -- files ----------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 10**20), max_size=5))
def test_saving_and_loading_gives_the_domain_back(tmp_path_factory, sizes):
    path = tmp_path_factory.mktemp("domain") / "domain.json"
    domain = Domain(sizes)
    domain.save(path)
    assert Domain.load(path) == domain
    assert json.loads(path.read_text()) == sizes


def load_error(path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FileFormatError) as raised:
        Domain.load(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert text.endswith(f" {REMEDY}")
    return text.removeprefix(f"{path}: ").removesuffix(f" {REMEDY}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileFormatError) as raised:
        Domain.load(tmp_path / "none.json")
    assert str(raised.value) == f"{tmp_path}/none.json: cannot be read: No such file or directory. Check the path."


def test_a_file_that_is_not_text_is_named(tmp_path):
    path = tmp_path / "domain.json"
    path.write_bytes(b'{"a\xff": 2}')
    with pytest.raises(FileFormatError) as raised:
        Domain.load(path)
    assert str(raised.value) == f"{path}: not UTF-8 text (invalid start byte). Save it as UTF-8."


def test_a_byte_order_mark_is_ignored(tmp_path):
    path = tmp_path / "domain.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 2}')
    assert Domain.load(path) == Domain({"a": 2})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not valid JSON (Expecting value: line 1 column 1 (char 0))."),
        ('{"a": 2', "not valid JSON (Expecting ',' delimiter: line 1 column 8 (char 7))."),
        ('{"a": 2} {}', "not valid JSON (Extra data: line 1 column 10 (char 9))."),
        ('[["a", 2]]', "not a JSON object."),
        ("3", "not a JSON object."),
        ("null", "not a JSON object."),
        ('{"a": 2, "b": 3, "a": 2}', "the domain names a more than once; name each attribute once."),
        ('{"a": true}', "attribute 'a' must have a positive integer number of values, got True."),
        ('{"a": 2.0}', "attribute 'a' must have a positive integer number of values, got 2.0."),
        ('{"a": NaN}', "attribute 'a' must have a positive integer number of values, got nan."),
        ('{"a": 1e999}', "attribute 'a' must have a positive integer number of values, got inf."),
        ('{"a": 0}', "attribute 'a' must have a positive integer number of values, got 0."),
        ('{"a": "2"}', "attribute 'a' must have a positive integer number of values, got '2'."),
        ('{"a": null}', "attribute 'a' must have a positive integer number of values, got None."),
        ('{"a": {"b": 2}}', "attribute 'a' must have a positive integer number of values, got [('b', 2)]."),
        ('{"": 2}', "attribute names must be non-empty strings, got ''."),
        ("[" * 100_000, "nested too deeply."),
        ('{"a":' * 100_000, "nested too deeply."),
    ],
)
def test_a_file_that_is_no_domain_says_why(tmp_path, content, problem):
    assert load_error(tmp_path / "domain.json", content) == problem


def test_hostile_files_are_refused_in_a_few_words(tmp_path):
    path = tmp_path / "domain.json"
    assert len(load_error(path, '{"a": ' + "9" * 10_000 + "}")) < 300
    assert len(load_error(path, '{"a": "' + "x" * 1_000_000 + '"}')) < 300
    assert len(load_error(path, '{"a": [' + "1," * 100_000 + "1]}")) < 300
    assert len(load_error(path, "{" + ",".join(f'"{i % 40_000}": 1' for i in range(80_000)) + "}")) < 300


def test_a_domain_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileFormatError) as raised:
        DOMAIN.save(tmp_path / "none" / "domain.json")
    assert str(raised.value) == (
        f"{tmp_path}/none/domain.json: cannot be written: No such file or directory. "
        "Check the folder and the free space."
    )
