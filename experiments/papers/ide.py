"""The entries of IDE, and the experiments that make its numbers."""

from __future__ import annotations

from experiments import ide_challenge, ide_convergence
from experiments.papers.entry import algorithm, impossible, statement
from experiments.papers.paper import Paper, Step
from experiments.papers.reading import rows

TESTS = "tests/priors/ide/test_published.py"
CONVERGENCE, CHALLENGE = (f"experiments/results/ide_{name}.md" for name in ("convergence", "challenge"))


def _range() -> tuple[str, bool]:
    full = rows("ide_challenge.csv", draw=ide_challenge.POOLED, records=1_000_000).iloc[0]
    own = rows("ide_challenge.csv", draw=ide_challenge.OWN, records=1_000_000).iloc[0]
    low, high = ide_challenge.PAPER
    text = f"mean {full['mean']:.2f}, 10 to 90 % {full.q10:.2f} to {full.q90:.2f}"
    return f"{text}; {own['mean']:.2f} where a group repeats its own year's records", bool(low <= full["mean"] <= high)


def _penalty() -> tuple[str, bool]:
    full = rows("ide_challenge.csv", draw=ide_challenge.POOLED, records=1_000_000).iloc[0]
    return f"{full.penalized} of 2,100 groups", bool(full.penalized == 0)


def _converges() -> tuple[str, bool]:
    table = rows("ide_convergence.csv", way=f"{ide_convergence.PUBLISHED}, 1,000 sweeps")
    said = []
    for noise, name in ((0.0, "consistent answers"), (5.0, "noisy ones")):
        group = table[table.noise == noise]
        said.append(
            f"{name}: {int(group.converged.sum())} of {len(group)} within {group.distance.max():.3f} of the least"
        )
    return "; ".join(said), bool(table.converged.mean() > 0.4)


PAPER = Paper(
    key="ide",
    short="IDE",
    title="Tao, Bater, Machanavajjhala: *Prior-aware distribution estimation for differential privacy*",
    runs=lambda how: [ide_challenge.runs(how)],
    steps=(Step("convergence", ide_convergence.make), Step("challenge", ide_challenge.make)),
    entries=(
        algorithm(
            "Definition 3.1",
            "the distribution update, all four cases",
            "pgmest/priors/ide/projection.py: project_answer",
            [
                f"{TESTS}::test_updates_are_definition_3_1_word_by_word",
                f"{TESTS}::test_nearest_answers_by_hand",
                f"{TESTS}::test_it_is_nearest_among_what_the_records_can_answer",
            ],
            form="a formula",
            because="`records=`; by default cells without mass stay empty, so that the KL to the prior stays finite",
        ),
        algorithm(
            "Algorithm 1",
            "iterative distribution estimation",
            "pgmest/priors/ide/update.py: update_prior",
            [f"{TESTS}::test_updates_are_definition_3_1_word_by_word"],
            because='`order="random", refill=True`; the default takes all partial workloads in each sweep',
        ),
        algorithm(
            "Algorithm 2",
            "state, then PUMA and year; four equal parts of the budget",
            "pgmest/priors/ide/hierarchy.py: synthesize_hierarchy",
            [f"{TESTS}::test_algorithm_2_spends_four_equal_parts"],
            because="`Level(share=0.5, count_share=0.5)` twice, and the options that its docstring names",
        ),
        algorithm(
            "section 3.1",
            "two-stage optimization: linear program, then least relative entropy",
            "experiments/ide_two_stage.py: two_stage",
            ["tests/priors/ide/test_ide.py::test_consistent_answers_give_the_two_stage_reference"],
            form="formulas",
        ),
        statement(
            "section 3.3",
            '"it is not yet clear how convergent this iterative algorithm is"',
            "open",
            _converges,
            CONVERGENCE,
            because="it converges on consistent answers and goes round on contradicting ones",
        ),
        statement(
            "Figure 1",
            "distance of a PUMA and year at epsilon 10",
            "around 0.2 to 0.4",
            _range,
            CHALLENGE,
            because="the table is a bootstrap of the challenge's excerpt, and the workloads are not published",
        ),
        statement("Figure 1", "no bias penalty", "none", _penalty, CHALLENGE),
        impossible(
            "section 4",
            "second place in the challenge's sprint 2",
            "its score",
            "the final evaluation was on a table that is not public",
        ),
    ),
    remarks=(
        "Results with other priors than the private table itself, and with forms of our own: "
        "[ide_acs.md](results/ide_acs.md).",
    ),
)
