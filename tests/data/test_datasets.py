"""The embedded table: what CENSUS.md says of it."""

import pytest

from pgmest import datasets
from pgmest.errors import ArgumentError
from pgmest.tables.distances import total_variation


def test_census_is_a_table_of_the_documented_size():
    census = datasets.load("census")
    assert census.records == 48_842
    assert len(census.domain) == 14
    assert sorted(census.domain.shape)[0] == 2
    assert sorted(census.domain.shape)[-1] == 100


def test_census_resembles_its_source(shared_data):
    source, census = shared_data("adult14"), datasets.load("census")
    assert source.domain == census.domain
    for clique, limit in {
        ("age",): 0.01,
        ("age", "marital-status"): 0.03,
        ("education-num", "income>50K"): 0.01,
    }.items():
        assert total_variation(source.project(clique), census.project(clique)) < limit


def test_census_is_not_its_source(shared_data):
    source, census = (data.to_frame() for data in (shared_data("adult14"), datasets.load("census")))
    assert len(source.merge(census.drop_duplicates())) < 0.2 * len(source)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ArgumentError, match="name='titanic' is not valid: it must be one of 'census'"):
        datasets.load("titanic")


def test_every_code_has_a_label():
    census, labels = datasets.load("census"), datasets.labels("census")
    assert {name: len(values) for name, values in labels.items()} == {name: census.domain[name] for name in labels}
    assert all(len(set(values)) == len(values) for values in labels.values())


def test_labels_are_those_of_the_published_counts():
    """The source says: 16,192 women, 15,784 with a high school's degree, 22,379 married, 15 in the army."""
    census, labels = datasets.load("census"), datasets.labels("census")

    def count(name: str, label: str) -> float:
        return census.project(name).values[labels[name].index(label)]

    assert count("sex", "Female") == pytest.approx(16_192, rel=0.01)
    assert count("education-num", "HS-grad") == pytest.approx(15_784, rel=0.01)
    assert count("marital-status", "Married-civ-spouse") == pytest.approx(22_379, rel=0.01)
    assert count("occupation", "Armed-Forces") == pytest.approx(15, abs=15)
    assert count("age", "17") == pytest.approx(595, rel=0.02)


def test_labels_of_no_table():
    with pytest.raises(ArgumentError, match="name='nothing'"):
        datasets.labels("nothing")
