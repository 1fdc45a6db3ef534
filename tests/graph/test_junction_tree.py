"""JunctionTree: its defining properties on random cliques, its costs by hand, and every text it shows."""

from __future__ import annotations

import dataclasses
import itertools
import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.errors import ArgumentError, DuplicateAttributeError, ModelTooLarge, UnknownAttributeError
from pgmest.graph.junction_tree import JunctionTree
from pgmest.tables.domain import Clique, Domain

SQUARE = Domain({"a": 10, "b": 20, "c": 30, "d": 40})
SIDES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]


def running_intersection(tree: JunctionTree) -> bool:
    """Return whether the cliques that hold an attribute are connected in the tree, for each attribute."""
    excess = dict.fromkeys(tree.domain, 0)  # the cliques that hold the attribute, less the edges both of whose ends do
    for clique in tree.cliques:
        for name in clique:
            excess[name] += 1
    for parent, child in tree.edges:
        for name in set(tree.cliques[parent]).intersection(tree.cliques[child]):
            excess[name] -= 1
    return all(count == 1 for count in excess.values())


@st.composite
def problems(draw: st.DrawFn) -> tuple[Domain, list[Clique]]:
    """A domain with cliques that repeat, nest, are permuted or empty, and leave attributes out."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5, 10**9]), max_size=8))
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    subset = st.lists(st.sampled_from(domain.attributes), unique=True, max_size=4) if sizes else st.just([])
    return domain, [tuple(clique) for clique in draw(st.lists(subset, max_size=12))]


def graph_of(domain: Domain, cliques: list[Clique] | tuple[Clique, ...]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(domain)
    for clique in cliques:
        graph.add_edges_from(itertools.combinations(clique, 2))
    return graph


def too_large(*arguments, **limits) -> str:
    with pytest.raises(ModelTooLarge) as caught:
        JunctionTree.from_cliques(*arguments, **limits)
    return str(caught.value)


# -- what makes it a junction tree ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(problems(), st.randoms(use_true_random=False), st.booleans())
def test_it_is_a_junction_forest_of_the_maximal_cliques_of_a_chordal_graph(problem, random, along_an_order):
    domain, measured = problem
    order = random.sample(domain.attributes, len(domain)) if along_an_order else None
    tree = JunctionTree.from_cliques(domain, measured, order=order)

    assert all(tree.containing(clique) is not None for clique in measured)
    assert {name for clique in tree.cliques for name in clique} == set(domain)
    assert all(clique == tuple(name for name in domain if name in clique) for clique in tree.cliques)

    filled = graph_of(domain, tree.cliques)
    assert len(filled) == 0 or nx.is_chordal(filled)
    if len(domain):
        assert sorted(map(sorted, nx.find_cliques(filled))) == sorted(map(sorted, tree.cliques))
    assert {frozenset(pair) for pair in tree.fill_edges} == {
        frozenset(edge) for edge in filled.edges if not graph_of(domain, measured).has_edge(*edge)
    }

    components = nx.number_connected_components(graph_of(domain, measured)) if len(domain) else 1
    assert len(tree.edges) == len(tree.cliques) - components
    assert running_intersection(tree)
    for (parent, child), separator in zip(tree.edges, tree.separators, strict=True):
        assert parent < child
        assert tree.parents[child] == parent
        assert set(separator) == set(tree.cliques[parent]) & set(tree.cliques[child]) != set()
    assert tree.parents.count(-1) == components

    assert tree.sizes == tuple(math.prod(domain[name] for name in clique) for clique in tree.cliques)
    assert tree.total_cells == sum(tree.sizes)
    assert tree.treewidth == max(map(len, tree.cliques)) - 1


@given(problems())
def test_its_elimination_order_gives_the_same_cliques(problem):
    domain, measured = problem
    tree = JunctionTree.from_cliques(domain, measured)
    again = JunctionTree.from_cliques(domain, measured, order=tree.elimination_order)
    assert again == tree


def test_an_order_whose_first_step_joins_everything_is_told_in_that_order():
    sizes = dict.fromkeys("abcde", 1) | {"b": 2}  # two cells if b joins all the others, four with either diagonal
    tree = JunctionTree.from_cliques(sizes, [tuple("abd"), tuple("bcd"), tuple("ae"), tuple("bce")])
    assert tree.cliques == (("a", "b", "c", "d", "e"),)
    assert JunctionTree.from_cliques(sizes, tree.measured, order=tree.elimination_order) == tree


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_cliques_and_of_their_attributes_never_matters(problem, random):
    domain, measured = problem
    shuffled = [tuple(random.sample(clique, len(clique))) for clique in random.sample(measured, len(measured))]
    tree, other = (JunctionTree.from_cliques(domain, cliques) for cliques in (measured, [*shuffled, *measured]))
    assert (tree.cliques, tree.parents, tree.elimination_order) == (
        other.cliques,
        other.parents,
        other.elimination_order,
    )


def test_running_intersection_sees_a_broken_tree():
    domain = Domain(dict.fromkeys("abcd", 2))
    tree = JunctionTree.from_cliques(domain, [("a", "b"), ("b", "c"), ("c", "d")])
    assert tree.cliques == (("b", "c"), ("a", "b"), ("c", "d"))
    assert running_intersection(tree)
    assert not running_intersection(dataclasses.replace(tree, parents=(-1, 0, 1)))
    assert not running_intersection(dataclasses.replace(tree, cliques=(("b", "c"), ("a", "b"), ("b", "c"))))


# -- examples ---------------------------------------------------------------------------------------------------------


def test_a_chain_is_rooted_in_the_middle():
    domain = Domain(dict.fromkeys("abcdef", 2))
    tree = JunctionTree.from_cliques(domain, list(itertools.pairwise("abcdef")))
    assert tree.cliques == (("c", "d"), ("b", "c"), ("a", "b"), ("d", "e"), ("e", "f"))
    assert tree.parents == (-1, 0, 1, 0, 3)
    assert tree.edges == ((0, 1), (1, 2), (0, 3), (3, 4))
    assert tree.separators == (("c",), ("b",), ("d",), ("e",))
    assert tree.fill_edges == ()


def test_a_square_gets_the_cheaper_diagonal():
    tree = JunctionTree.from_cliques(SQUARE, SIDES)
    assert tree.fill_edges == (("a", "c"),)
    assert tree.cliques == (("a", "c", "d"), ("a", "b", "c"))
    assert tree.separators == (("a", "c"),)
    assert tree.total_cells == 10 * 30 * 40 + 10 * 20 * 30
    assert tree.treewidth == 2
    assert tree.megabytes == 0.144


def test_a_given_order_is_followed():
    tree = JunctionTree.from_cliques(SQUARE, SIDES, order=tuple("acbd"))
    assert tree.elimination_order == ("a", "c", "b", "d")
    assert tree.fill_edges == (("b", "d"),)
    assert tree.total_cells == 10 * 20 * 40 + 20 * 30 * 40


def test_attributes_in_no_clique_stand_alone():
    tree = JunctionTree.from_cliques({"a": 2, "b": 3, "c": 4}, [("c", "a"), (), ("a",)])
    assert tree.cliques == (("a", "c"), ("b",))
    assert tree.parents == (-1, -1)
    assert tree.separators == ()
    assert tree.measured == (("c", "a"), (), ("a",))


def test_one_clique_over_everything_is_the_whole_tree():
    tree = JunctionTree.from_cliques(SQUARE, [*SIDES, tuple("dbca")])
    assert tree.cliques == (("a", "b", "c", "d"),)


@pytest.mark.parametrize("cliques", [[], [()]])
def test_an_empty_domain_has_one_empty_clique(cliques):
    tree = JunctionTree.from_cliques(Domain({}), cliques)
    assert (tree.cliques, tree.parents, tree.edges, tree.separators) == (((),), (-1,), (), ())
    assert (tree.total_cells, tree.treewidth, tree.elimination_order, tree.fill_edges) == (1, -1, (), ())
    assert tree.containing(()) == 0
    assert repr(tree).startswith("JunctionTree: 1 clique and 0 separators in 1 component, over 0 attributes")


def test_containing_finds_the_smallest_clique():
    tree = JunctionTree.from_cliques(SQUARE, [("a", "b", "c"), ("a", "b", "d")])
    for attributes, holder in ((("b", "a"), "abc"), ("d", "abd"), ((), "abc")):
        place = tree.containing(attributes)
        assert place is not None
        assert tree.cliques[place] == tuple(holder)
    assert tree.containing(("c", "d")) is None
    with pytest.raises(UnknownAttributeError):
        tree.containing(("e",))


def test_it_is_frozen():
    tree = JunctionTree.from_cliques(SQUARE, SIDES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tree.cliques = ()  # type: ignore[misc]


def test_a_long_chain_of_triples_is_its_own_tree():
    names = [f"x{i}" for i in range(1000)]
    triples = list(zip(names, names[1:], names[2:], strict=False))
    tree = JunctionTree.from_cliques(dict.fromkeys(names, 10), triples)
    assert sorted(tree.cliques, key=lambda clique: int(clique[0][1:])) == triples
    assert tree.fill_edges == ()
    assert running_intersection(tree)


def test_a_real_table_with_38_marginals_needs_no_fill(shared_data):
    domain = shared_data("adult14").domain
    pairs = (
        "marital-status/relationship workclass/occupation relationship/sex age/marital-status "
        "education-num/occupation age/relationship occupation/hours-per-week relationship/income>50K "
        "age/education-num marital-status/sex marital-status/income>50K race/native-country "
        "capital-gain/income>50K education-num/native-country fnlwgt/native-country relationship/capital-gain "
        "workclass/education-num capital-loss/income>50K sex/income>50K relationship/capital-loss occupation/race "
        "education-num/race sex/capital-gain sex/capital-loss"
    )
    cliques = [(name,) for name in domain] + [tuple(pair.split("/")) for pair in pairs.split()]
    tree = JunctionTree.from_cliques(domain, cliques)
    assert tree.total_cells == 22_303


# -- what it shows ----------------------------------------------------------------------------------------------------


def test_its_repr_is_a_cost_report():
    tree = JunctionTree.from_cliques({**SQUARE, "e": 7}, [*SIDES, ("e",)])
    assert repr(tree).splitlines() == [
        "JunctionTree: 3 cliques and 1 separator in 2 components, over 5 attributes",
        "  cells        18,007 (144 KB)",
        "  treewidth    2, with 1 fill edge",
        "  time         about 0.028 ms a call of the marginal oracle (an estimate)",
        "   cells  largest cliques  separator from parent",
        "  12,000  a, c, d",
        "   6,000  a, b, c          a, c",
        "       7  e",
    ]


def test_its_repr_stays_short_for_many_attributes_and_long_names():
    names = ["x" * 200, *(f"x{i}" for i in range(1, 5000))]
    tree = JunctionTree.from_cliques(dict.fromkeys(names, 2), itertools.pairwise(names))
    lines = repr(tree).splitlines()
    assert len(lines) == 12
    assert max(map(len, lines)) <= 120
    assert lines[-1] == "  and 4,993 smaller cliques"


def test_numbers_beyond_floating_point_are_shown_by_their_exponent():
    names = [f"x{i}" for i in range(5000)]
    tree = JunctionTree.from_cliques(dict.fromkeys(names, 10), [names])
    assert tree.total_cells == 10**5000
    assert tree.megabytes == math.inf
    assert repr(tree).splitlines() == [
        "JunctionTree: 1 clique and 0 separators in 1 component, over 5,000 attributes",
        "  cells        10^5000 (10^5001 bytes)",
        "  treewidth    4999, with 0 fill edges",
        "  time         about 10^4994 ms a call of the marginal oracle (an estimate)",
        "    cells  largest cliques                                         separator from parent",
        "  10^5000  x0, x1, x2, x3, x4, x5, x6, x7, x8, ... (5,000 in all)",
    ]


# -- what it refuses --------------------------------------------------------------------------------------------------


def test_a_tree_over_the_memory_limit_names_its_culprits():
    assert too_large(SQUARE, [*SIDES, ("a",)], max_megabytes=0.1) == (
        "the junction tree of 5 measured cliques needs 144 KB (18,000 cells of 8 bytes), more than "
        "max_megabytes=0.1. Its largest cliques:\n"
        "  a, c, d: 12,000 cells (96 KB), where (c, d), (d, a) meet\n"
        "  a, b, c: 6,000 cells (48 KB), where (b, c), (a, b) meet\n"
        "Drop or shrink measured cliques that meet in these, or raise max_megabytes to at least 1."
    )


def test_a_tree_over_the_cell_limit_says_how_many_it_needs():
    message = too_large(SQUARE, SIDES, max_cells=17_999)
    assert "more than max_cells=17,999. Its" in message
    assert message.endswith("or raise max_cells to at least 18,000.")
    assert JunctionTree.from_cliques(SQUARE, SIDES, max_cells=18_000).total_cells == 18_000


def test_only_the_first_measured_cliques_of_a_culprit_are_listed():
    names = [f"x{i}" for i in range(5)]
    message = too_large(dict.fromkeys(names, 100), list(itertools.combinations(names, 2)), max_megabytes=1)
    assert "  x0, x1, x2, x3, x4: 10,000,000,000 cells (80 GB), where (x0, x1), (x0, x2), (x0, x3), " in message
    assert "(x0, x4), ... (10 in all) meet\n" in message
    assert message.endswith("raise max_megabytes to at least 80,000.")


def test_a_tree_beyond_floating_point_is_refused_like_any_other():
    names = [f"x{i}" for i in range(300)]
    tree = JunctionTree.from_cliques(dict.fromkeys(names, 10), [names])
    with pytest.raises(ModelTooLarge, match=r"^the junction tree of 1 measured clique needs 10\^301 bytes \(10\^300 c"):
        tree.check_size(1e6)
    tree.check_size(math.inf)


def test_a_limit_that_is_met_passes():
    tree = JunctionTree.from_cliques(SQUARE, SIDES, max_megabytes=1)
    tree.check_size(1)
    assert tree.cliques
    assert JunctionTree.from_cliques(SQUARE, SIDES, max_megabytes=0.144).megabytes == 0.144
    assert too_large(SQUARE, SIDES, max_megabytes=0.1439).endswith("raise max_megabytes to at least 1.")


@pytest.mark.parametrize("limit", [0, -1, math.nan, "1"])
def test_a_limit_must_be_a_positive_number(limit):
    with pytest.raises(ArgumentError) as caught:
        JunctionTree.from_cliques(SQUARE, SIDES, max_megabytes=limit)
    assert str(caught.value) == f"max_megabytes={limit!r} is not valid: it must be a positive number."


def test_attributes_are_checked():
    with pytest.raises(UnknownAttributeError, match="'e' is not an attribute of the domain"):
        JunctionTree.from_cliques(SQUARE, [("a", "e")])
    with pytest.raises(DuplicateAttributeError, match="names a more than once"):
        JunctionTree.from_cliques(SQUARE, [("a", "a")])
    with pytest.raises(UnknownAttributeError):
        JunctionTree.from_cliques(SQUARE, SIDES, order=tuple("abce"))


def test_an_order_must_name_every_attribute():
    with pytest.raises(ArgumentError) as caught:
        JunctionTree.from_cliques(SQUARE, SIDES, order=("a", "b"))
    assert str(caught.value) == "order leaves out c, d; name every attribute of the domain once."
