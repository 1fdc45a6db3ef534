"""Draw the picture of the front page from the code beside it: `python docs/hooks/front_picture.py`.

The code is the first Python block of docs/index.md. The picture is narrow, so that it can be read on a phone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
PICTURE = DOCS / "marginals.png"
ANSWERS = "never measured: age by income"


def ran() -> dict[str, Any]:
    """Run the code of the front page, and return its names."""
    block = re.search(
        r"^```python\n(.*?)^```$", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert block is not None
    names: dict[str, Any] = {}
    exec(compile(block[1], "docs/index.md", "exec"), names)
    return names


def draw(names: dict[str, Any]) -> None:
    """Draw the table of the code, true and estimated, one income above the other."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import pgmest as pg

    estimated = names["table"].values
    true = names["data"].project(tuple(names["table"].domain)).values
    labels = pg.datasets.labels("census")
    ages = [int(label) for label in labels["age"]]
    plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 1, figsize=(5, 4.4), sharex=True, layout="constrained")
    for income, axis in enumerate(axes):
        axis.fill_between(ages, true[:, income], step="mid", color="#a9cbe4", label="true")
        axis.step(ages, estimated[:, income], where="mid", color="#10233f", linewidth=1.2, label="estimated")
        axis.set(title=labels["income>50K"][income], ylabel="records", ylim=(0, None), xlim=(ages[0], ages[-1]))
    axes[0].legend(frameon=False)
    axes[1].set_xlabel("age")
    figure.suptitle(ANSWERS, fontweight="bold")
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    draw(ran())
