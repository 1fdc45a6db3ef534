"""Hierarchies of attributes: their checks, makers and files, and domains that know them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import ArgumentError, DomainError, FileFormatError, UnknownAttributeError

CODES = ["A00", "A01", "A10", "B20", "B21", "C00"]


@st.composite
def trees(draw: st.DrawFn) -> pg.Hierarchy:
    """Draw nested levels of an attribute of 1 to 12 values, in any order of codes."""
    size = draw(st.integers(1, 12))
    groups = np.array(draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)))
    levels = [groups]
    for _ in range(draw(st.integers(0, 2))):  # each finer level divides the groups of the one before
        inside = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
        levels.append(levels[-1] * 3 + inside)
    return pg.Hierarchy("a", {f"level{place}": list(map(str, one)) for place, one in enumerate(levels)})


def test_prefixes_name_the_groups_of_codes():
    tree = pg.Hierarchy.from_prefixes("diagnosis", CODES, [1, 2], names=["chapter", "block"])
    assert tree.names == ("chapter", "block")
    assert dict(tree.sizes) == {"chapter": 3, "block": 4}
    assert tree.labels["block"] == ("A0", "A1", "B2", "C0")
    assert tree.groups("chapter").tolist() == [0, 0, 0, 1, 1, 2]
    assert tree.parents("block").tolist() == [0, 0, 1, 2]
    assert tree.members("chapter", 1).tolist() == [3, 4]
    assert repr(tree) == "Hierarchy of 'diagnosis': 6 values in 3 chapter > 4 block"


def test_groups_may_be_named_by_large_numbers():
    tree = pg.Hierarchy("block", {"tract": [36061000100, 36061000100, 36047000200], "part": [10**15, 0, 1]})
    assert tree.labels["tract"] == ("36061000100", "36047000200")
    assert dict(tree.sizes) == {"tract": 2, "part": 3}


@given(trees())
def test_every_group_lies_in_one_parent_and_is_a_range_in_the_order_of_the_tree(tree: pg.Hierarchy):
    for above, below in zip(tree.names, tree.names[1:], strict=False):
        assert (tree.parents(below)[tree.groups(below)] == tree.groups(above)).all()
    assert sorted(tree.order) == list(range(tree.values))
    for level in tree.names:
        ordered = tree.groups(level)[tree.order]
        assert np.count_nonzero(np.diff(ordered)) == tree.size(level) - 1


@given(trees())
def test_pickles_json_and_files_of_domains_keep_hierarchies(
    tmp_path_factory: pytest.TempPathFactory, tree: pg.Hierarchy
):
    domain = pg.Domain({"b": 2, "a": tree.values}).with_hierarchies(tree)
    path = tmp_path_factory.mktemp("domain") / "domain.json"
    domain.save(path)
    for again in (pg.Domain.load(path), pickle.loads(pickle.dumps(domain)), domain.project(["a"]).merge(domain)):
        assert again.hierarchies["a"] == tree
    assert not domain.project(["b"]).hierarchies
    assert domain == pg.Domain({"b": 2, "a": tree.values})


@pytest.mark.parametrize(
    ("attribute", "levels", "labels"),
    [
        ("", {"x": [0, 1]}, None),
        ("a", {}, None),
        ("a", {"x@y": [0, 1]}, None),
        ("a", {"x": []}, None),
        ("a", {"x": [[0, 1]]}, None),
        ("a", {"x": ["A", None]}, None),
        ("a", {"x": [0.0, float("nan")]}, None),
        ("a", {"x": [0, 1], "y": [0, 1, 2]}, None),
        ("a", {"fine": [0, 1, 1], "coarse": [0, 0, 1]}, None),
        ("a", {"x": [0, 1]}, {"x": ["only one"]}),
        ("a", {"x": [0, 1]}, {"x": ["same", "same"]}),
    ],
)
def test_what_is_no_tree_is_refused(attribute, levels, labels):
    with pytest.raises(ArgumentError):
        pg.Hierarchy(attribute, levels, labels=labels)


def test_a_group_in_two_parents_is_named():
    with pytest.raises(ArgumentError, match=r"the group 'A1' of 'block' lies in 'A' and 'B' of 'chapter'"):
        pg.Hierarchy("a", {"chapter": ["A", "A", "B"], "block": ["A0", "A1", "A1"]})


def test_a_domain_checks_its_hierarchies():
    tree = pg.Hierarchy("a", {"x": [0, 0, 1]})
    with pytest.raises(UnknownAttributeError):
        pg.Domain({"b": 3}).with_hierarchies(tree)
    with pytest.raises(DomainError, match="3 values"):
        pg.Domain({"a": 4}).with_hierarchies(tree)
    with pytest.raises(ArgumentError):
        pg.Domain({"a": 3}).with_hierarchies({"a": [0, 0, 1]})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stored", ["[1]", '[{"attribute": "a"}]', '[{"attribute": "a", "levels": {"x": [0]}, "labels": {}}]']
)
def test_a_wrong_hierarchy_in_a_file_is_refused(tmp_path, stored):
    path = tmp_path / "domain.json"
    path.write_text(f'{{"a": 3, "@hierarchies": {stored}}}')
    with pytest.raises(FileFormatError):
        pg.Domain.load(path)


def test_an_attribute_may_have_a_name_like_a_level():
    domain = pg.Domain({"a@x": 2, "a": 3}).with_hierarchies(pg.Hierarchy("a", {"x": [0, 0, 1]}))
    assert domain.level("a@x").attribute == "a@x"


def test_errors_name_what_is_missing():
    domain = pg.Domain({"a": 3, "b": 2}).with_hierarchies(pg.Hierarchy("a", {"chapter": [0, 0, 1]}))
    with pytest.raises(UnknownAttributeError, match="Did you mean 'a@chapter'"):
        domain.level("a@chaptr")
    with pytest.raises(UnknownAttributeError, match="no hierarchy of 'b' is known"):
        domain.level("b@chapter")
    with pytest.raises(UnknownAttributeError, match="c@chapter"):
        domain.level("c@chapter")


def test_the_text_lists_the_coarsest_level_and_how_many_values_are_below():
    tree = pg.Hierarchy("code", {"chapter": ["A", "A", "B"], "block": ["x", "y", "z"]})
    assert str(tree) == "Hierarchy of 'code': 3 values in 2 chapter > 3 block\n  A: 2\n  B: 1"
    assert str(pg.Hierarchy("n", {"half": [*range(20)]})).endswith("  11: 1\n  ... 8 more")


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("Chapter", "'a' has no level 'Chapter'; its levels are: chapter. Did you mean 'a@chapter'"),
        ("x", "Name one of them, such as 'a@chapter'"),
    ],
    ids=["in another case", "of another name"],
)
def test_an_unknown_level_names_those_of_the_attribute(level, message):
    with pytest.raises(UnknownAttributeError, match=message):
        pg.Hierarchy("a", {"chapter": [0, 0, 1]}).groups(level)
