"""The four problems of PGM section 5.1: the authors' triples, from the rule alone and on the real tables."""

from __future__ import annotations

import math

import pytest

import pgmest as pg
from experiments.data import load_domain
from experiments.pgm_icml2019 import problem
from experiments.problems import adult14_fifteen


def domain_of(name: str, shared_data) -> pg.Domain:
    shared_data(problem.TABLES[name])
    return load_domain(problem.TABLES[name])


@pytest.mark.parametrize(
    ("name", "queries"), [("titanic", 4851), ("adult", 62_876), ("loans", 352_201), ("stroke", 17_116)]
)
def test_the_authors_rule_gives_the_papers_queries_but_for_a_digit_in_two(name, queries, shared_data):
    domain = domain_of(name, shared_data)
    triples = problem.drawn_triples(domain, problem.PAPER_RECORDS[name], problem.published_order(name, domain))
    assert sum(math.prod(domain[attribute] for attribute in triple) for triple in triples) == queries
    digits = [one != other for one, other in zip(str(queries), str(problem.PAPER_QUERIES[name]), strict=True)]
    assert sum(digits) == (name in {"loans", "stroke"})


def test_on_adult_they_are_the_triples_that_the_authors_print(shared_data):
    domain = domain_of("adult", shared_data)
    triples = problem.drawn_triples(domain, 48_842, problem.published_order("adult", domain))
    assert triples == adult14_fifteen().cliques


def test_adult_with_education_is_table_1s_other_row(shared_data):
    """15 attributes and 1e19 are those of the file with education, whose triples have another number of queries."""
    sizes = {}
    for name, size in domain_of("adult", shared_data).items():
        sizes |= {"education": 16, name: size} if name == "education-num" else {name: size}
    domain = pg.Domain(sizes)
    assert (len(domain), f"{domain.size():.0e}") == (problem.PAPER_ATTRIBUTES["adult"], "1e+19")
    triples = problem.drawn_triples(domain, 48_842, domain)
    assert sum(math.prod(domain[attribute] for attribute in triple) for triple in triples) == 73_683


def test_the_rule_leaves_out_large_triples_and_draws_without_replacement():
    domain = pg.Domain({f"a{place}": size for place, size in enumerate((2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 2, 3))})
    triples = problem.drawn_triples(domain, 100, domain)
    assert len(set(triples)) == 15
    assert all(domain.size(triple) <= 100 for triple in triples)
    assert all(list(triple) == sorted(triple, key=domain.attributes.index) for triple in triples)


def test_the_published_order_keeps_every_attribute_once(shared_data):
    for name in problem.DATASETS:
        domain = domain_of(name, shared_data)
        assert sorted(problem.published_order(name, domain)) == sorted(domain)
