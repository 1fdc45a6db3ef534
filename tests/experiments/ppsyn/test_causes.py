"""The causes of PPSyn's differences: what is changed."""

from collections import Counter

import pytest

from experiments.ppsyn import causes, cells, problems


def test_each_run_has_a_name_of_its_own():
    every = [*causes.runs(), *cells.sweep(), *cells.letter(), *cells.support_vectors()]
    assert max(Counter(cell.name for cell in every).values()) == 1


@pytest.mark.parametrize("name", cells.VARIANTS)
def test_a_variant_changes_one_parameter(name):
    base, changed = cells.VARIANTS[name]
    before, after = vars(cells.made(base, 0.5)), vars(cells.made(name, 0.5))
    assert {key: after[key] for key in after if after[key] != before[key]} == changed


def test_a_workload_of_any_size_has_larger_marginals(shared_data):
    largest, domain = {}, shared_data("BR2000").domain
    for max_cells in (problems.MAX_CELLS, causes.UNLIMITED):
        cell = causes.CauseCell("BR2000", "AIM, plain", 0.1, d=5, max_cells=max_cells)
        largest[max_cells] = max(domain.size(clique) for clique in cell.workload().cliques)
    assert largest[problems.MAX_CELLS] <= problems.MAX_CELLS < largest[causes.UNLIMITED]
