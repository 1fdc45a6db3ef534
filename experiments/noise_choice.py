"""Compare kinds of noise for k marginals: DPSyn's Figure 2 for three budgets, as tables and pictures."""

from __future__ import annotations

from pathlib import Path

from experiments.figure_style import COLORS, legend, panels, save, titles
from pgmest._base.files import write_atomically
from pgmest.privacy import best_noise, noise_choices, noise_table

RESULTS = Path(__file__).parent / "results"
BUDGETS = ((0.3, 1e-9), (1.0, 1e-9), (8.0, 1e-9))
TABLE = (1, 2, 5, 10, 20, 30, 50, 100, 300, 1000)
CURVE = tuple(sorted({round(10 ** (step / 8)) for step in range(25)}))


def first_gaussian(epsilon: float, delta: float) -> int:
    """The least number of marginals for which Gaussian noise is the better."""
    return next(k for k in range(1, 10_000) if best_noise(k, epsilon, delta).noise == "gaussian")


def draw(epsilon: float, delta: float, path: Path) -> None:
    """Draw the noise for k marginals under each noise distribution and composition theorem, on logarithmic axes."""
    figure, (axes,) = panels(1, width=6.0, height=3.6)
    dashes = {"basic": ":", "advanced": "--", "zcdp": "-"}
    for column in zip(*(noise_choices(k, epsilon, delta) for k in CURVE), strict=True):
        noise, composition = column[0].noise, column[0].composition
        look = {"color": COLORS[noise == "gaussian"], "linestyle": dashes[composition]}
        axes.loglog(CURVE, [choice.stddev for choice in column], label=f"{noise}, {composition}", **look)
    titles(axes, f"({epsilon:g}, {delta:g})-DP", x="marginals", y="standard deviation of a cell")
    legend(figure, axes)
    save(figure, path)


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
        draw(epsilon, delta, RESULTS / name)
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
