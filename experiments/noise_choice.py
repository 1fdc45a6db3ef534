"""Compare kinds of noise for k marginals: DPSyn's Figure 2 for three budgets, as tables and pictures."""

from __future__ import annotations

from pathlib import Path

from pgmest._base.files import write_atomically
from pgmest.plots import draw_noise_choices
from pgmest.privacy import best_noise, noise_table

RESULTS = Path(__file__).parent / "results"
BUDGETS = ((0.3, 1e-9), (1.0, 1e-9), (8.0, 1e-9))
TABLE = (1, 2, 5, 10, 20, 30, 50, 100, 300, 1000)
CURVE = tuple(sorted({round(10 ** (step / 8)) for step in range(25)}))


def first_gaussian(epsilon: float, delta: float) -> int:
    """The least number of marginals for which Gaussian noise is the better."""
    return next(k for k in range(1, 10_000) if best_noise(k, epsilon, delta).noise == "gaussian")


def main() -> None:
    """Write the page and the pictures."""
    lines = [
        "# Which noise for k marginals",
        "",
        "Made by `python -m experiments.noise_choice`; not edited. Standard deviation of each cell, in counts, when k",
        "marginals share one budget and a record adds one count to each; the least in bold. Computed, not simulated,",
        "for continuous noise: where it is below about one count, integer noise is smaller.",
        "",
        "Laplace noise composes by adding epsilons (basic), by the advanced composition theorem, or as zCDP with",
        "epsilon tanh(epsilon / 2) each. Gaussian noise is calibrated analytically for a share of epsilon and delta",
        "(basic, advanced), or composes as zCDP. zCDP is converted by the bound of optimal order. DPSyn, Figure 2.",
    ]
    for epsilon, delta in BUDGETS:
        name = f"noise_choice-{epsilon:g}.png"
        draw_noise_choices(CURVE, epsilon, delta).savefig(RESULTS / name, dpi=150)
        lines += [
            "",
            f"## epsilon {epsilon:g}, delta {delta:g}",
            "",
            f"Gaussian noise under zCDP is the best from k = {first_gaussian(epsilon, delta)} on, before that Laplace.",
            "",
            noise_table(TABLE, epsilon, delta),
            "",
            f"![Standard deviation against the number of marginals]({name})",
        ]
    write_atomically(RESULTS / "noise_choice.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
