"""One run of a rival by its authors' code, in a Python that has what it imports: `python neural_worker.py TASK.json`.

Nothing of pgmest is imported. The task names a checkout of the rival's repository, a file of codes, the size of each
attribute, the budget, the pairs that are asked, and which attributes are numbers. Written back: codes of synthetic
records, the model's own answers where there is a model, and processor seconds, imports left out. Modules that only
other parts of a repository need (images, text, plots) are stood in for by empty ones.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Task = dict[str, Any]
CHECKED = 20
"""The number of first measurements after which MargNet's loss is compared with the authors' evaluation of it."""


class StandIn(types.ModuleType):
    """A module that has every public name, and nothing behind it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def stand_in(*names: str) -> None:
    """Import these as `StandIn`."""
    for name in names:
        module = StandIn(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


def margnet(task: Task, codes: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray], dict[str, Any]]:
    """MargNet, as its `main.py` runs it, without the discretizing of columns.

    What differs: the device; exact tables of the records, by which it selects, are counted once and not each round; and
    the answers of all queries are one product of the batch's probabilities with themselves, not their product with a
    matrix of zeros and ones with a row per query, which takes a processor several times as long. The loss is the same
    number, and after the first measurements that is checked.
    """
    import torch

    sys.path.insert(0, task["checkout"])
    os.chdir(task["checkout"])  # it reads its settings from there
    stand_in("matplotlib", "matplotlib.pyplot")
    torch.set_num_threads(1)
    torch.cuda.reset_peak_memory_stats = lambda *_: None
    torch.cuda.max_memory_allocated = lambda *_, **__: 0
    from method.MargDL import main as authors
    from util.rho_cdp import cdp_rho

    spent = 0.0

    class Counted(authors.Dataset):
        """Their records, with exact tables kept."""

        def marginal_query(self, attr_tuple: tuple[str, ...], rho: float | None = None, **options: Any) -> np.ndarray:
            nonlocal spent
            if rho is not None:
                spent += rho if len(attr_tuple) == 1 else rho / 0.9  # a pair's tenth went to its selection
                return super().marginal_query(attr_tuple, rho, **options)
            kept = self.__dict__.setdefault("exact", {})
            key = (attr_tuple, *sorted(options.items()))
            if key not in kept:
                kept[key] = super().marginal_query(attr_tuple, None, **options)
            return kept[key]

    class Evaluated(authors.MargGAN):
        """Their generator, with another evaluation of the same loss."""

        stored = 0

        def store_marginals(self, marginals: list[Any], **options: Any) -> None:
            self.stored += 1
            if self.stored <= CHECKED:
                super().store_marginals(marginals, **options)
            else:
                found = self._find_marginal_index(self._merge_marginals(marginals))
                self.queries, self.real_answers, self.query_size, self.query_weight = found
                self.Q_mask = torch.empty(0)
            width = int(self.cum_num_classes[-1]) + 1
            ends = [(query[0], query[1] if len(query) == 2 else width - 1) for query in self.queries]
            self.places = torch.from_numpy(np.array(ends, dtype=np.int64) @ [width, 1])
            if self.stored <= CHECKED:
                self.check()

        def _compute_loss(self, Q: Any, ans_weight: Any, real_ans: Any) -> Any:
            shares = self._predict_x(self._uniform_sample()).exp()
            shares = torch.cat([shares, shares.new_ones(len(shares), 1)], dim=1)  # for queries of one attribute
            joint = (shares.T @ shares / len(shares)).reshape(-1)
            return torch.dot(ans_weight, (joint.index_select(0, self.places) - real_ans).square())

        @torch.no_grad()
        def check(self) -> None:
            self.model.eval()
            asked = self.Q_mask, self.query_weight, self.real_answers
            theirs, ours = super()._compute_loss(*asked).item(), self._compute_loss(*asked).item()
            if abs(ours - theirs) > 1e-4 * abs(theirs) + 1e-9:
                raise ArithmeticError(f"the loss is {ours!r}, and {theirs!r} as the authors evaluate it")

    authors.Dataset, authors.MargGAN = Counted, Evaluated
    start = time.process_time()
    np.random.seed(task["seed"])  # noqa: NPY002  which it draws from
    torch.manual_seed(task["seed"])
    names, settings = list(task["sizes"]), task["settings"]
    options = argparse.Namespace(
        dataset=settings[0],
        epsilon=settings[1],  # names the settings; the budget is rho
        device="cpu",
        **dict.fromkeys(("iter", "lr", "batch")),
        **dict.fromkeys(("test", "resample", "graph_sample"), False),
    )
    rho = cdp_rho(task["epsilon"], task["delta"])
    frame = pd.DataFrame(codes, columns=names)
    model = authors.marggan_main(options, df=frame, domain=dict(task["sizes"]), rho=rho, parent_dir=task["folder"])
    generator = model["MargDL_generator"].model
    made = generator.sample(len(codes))
    seconds = time.process_time() - start
    answers = (generator.obtain_sample_marginals([tuple(pair)])[0] for pair in task["pairs"])
    return made, answers, {"seconds": seconds, "rho": rho, "spent": spent / rho}


def tabpe(task: Task, codes: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray], dict[str, Any]]:
    """Tab-PE with the settings of its example on Adult: 1,000 records, 30 populations.

    What differs: values and ranges are those of the declared sizes and not those that occur, and there is one label for
    all records, since the shares of labels would be taken from the records without being paid for.
    """
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, task["checkout"])
    parts = [f"pe.{room}.{kind}" for room in ("api", "data", "embedding") for kind in ("image", "text")]
    stand_in("generalimport", *parts)
    pd.options.mode.copy_on_write = True
    from pe.api import TabularAPI
    from pe.constant.data import TABULAR_DATA_COLUMN_NAME, VARIATION_API_FOLD_ID_COLUMN_NAME
    from pe.data import TabularColumnType, TabularCSV
    from pe.embedding import TabularEmbedding
    from pe.histogram import NearestNeighbors
    from pe.population import CompositePopulation, PEPopulation
    from pe.runner import PE

    start = time.process_time()
    np.random.seed(task["seed"])  # noqa: NPY002  which it draws from
    sizes, numbers, folder = task["sizes"], task["numbers"], Path(task["folder"])
    kinds = {
        "cat_columns": [name for name in sizes if name not in numbers],
        "int_columns": numbers,
        "float_columns": [],
        "label_columns": ["label"],
    }
    pd.DataFrame(codes, columns=list(sizes)).assign(label=0).to_csv(folder / "records.csv", index=False)
    (folder / "kinds.json").write_text(json.dumps(kinds), encoding="utf-8")
    data = TabularCSV(csv_path=str(folder / "records.csv"), metadata_path=str(folder / "kinds.json"))
    declared = {
        name: {"type": TabularColumnType.INTEGER, "min": 0, "max": sizes[name] - 1}
        if name in numbers
        else {"type": TabularColumnType.CATEGORICAL, "categories": list(range(sizes[name]))}
        for name in [*kinds["cat_columns"], *numbers]
    }
    rounds, records = 30, 1000
    api = TabularAPI(
        info=declared,
        mutation_rate_init=0.5,
        mutation_rate_final=0.01,
        decay_type="polynomial",
        gamma=0.2,
        num_iterations=rounds,
    )
    embedding = TabularEmbedding(info=declared)
    first = PEPopulation(
        api=api,
        initial_variation_api_fold=0,
        next_variation_api_fold=1,
        keep_selected=False,
        selection_mode="sample",
        histogram_threshold=0,
    )
    then = PEPopulation(
        api=api, initial_variation_api_fold=3, next_variation_api_fold=3, keep_selected=True, selection_mode="rank"
    )
    runner = PE(
        priv_data=data,
        population=CompositePopulation(populations=[first] * 5 + [then] * (rounds - 5)),
        histogram=NearestNeighbors(embedding=embedding, mode="L2", lookahead_degree=0, backend="torch"),
    )
    found = runner.run(
        num_samples_schedule=[records] * rounds, delta=task["delta"], epsilon=task["epsilon"], save_checkpoint=False
    )
    rows = found.filter({VARIATION_API_FOLD_ID_COLUMN_NAME: -1}).data_frame[TABULAR_DATA_COLUMN_NAME].tolist()
    made = pd.DataFrame(rows, columns=list(declared))[list(sizes)].to_numpy(dtype=float)
    return np.rint(made), iter(()), {"seconds": time.process_time() - start}


RIVALS = {"MargNet": margnet, "Tab-PE": tabpe}


def main() -> None:
    task: Task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(task["folder"])
    made, answers, said = RIVALS[task["rival"]](task, np.load(folder / "codes.npy"))
    np.save(folder / "made.npy", np.asarray(made).astype(np.int64))
    np.save(folder / "answers.npy", np.concatenate([np.empty(0), *answers]))
    (folder / "said.json").write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main()
