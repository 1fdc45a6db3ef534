"""One run of one library, in that library's environment: `python worker.py TASK.json`.

Nothing of pgmest's repository is imported here but by its own runs, so that this file runs wherever a peer installs.
The task names the library and the method, a file of codes with the size of each attribute, and the budget. Written
back: the codes of as many synthetic records, and the processor seconds from the codes to these, imports left out.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Task = dict[str, Any]
Prepared = Callable[[], Any]
"""What is timed: from the codes to synthetic codes, shape (records, attributes)."""


def pgmest(task: Task, frame: pd.DataFrame) -> Prepared:
    import pgmest as pg
    from pgmest._base.threads import set_threads

    set_threads(1)
    domain = pg.Domain(task["sizes"])
    pg.estimate([pg.LinearMeasurement([1.0, 2.0], "a")], {"a": 2}).sample(5, seed=0)  # kernels, from their folder

    def run() -> Any:
        data = pg.Dataset.from_frame(frame, domain)
        kind = getattr(pg.mechanisms, task["method"])
        result = kind(epsilon=task["epsilon"], delta=task["delta"]).fit(data, seed=task["seed"], progress=False)
        return np.column_stack(list(result.sample(len(frame), seed=task["seed"]).columns))

    return run


def dpmm(task: Task, frame: pd.DataFrame) -> Prepared:
    from dpmm import pipelines

    kind = getattr(pipelines, f"{task['method']}Pipeline")
    buys = bool(task["numbers"])
    table, domain = frame, dict(task["sizes"])
    if buys:  # bins by PrivTree, for a tenth of the budget, as by default
        table = with_gaps(frame, task).astype(dict.fromkeys(set(frame) - set(task["numbers"]), "category"))
        domain = {name: {"categories": list(range(size))} for name, size in task["sizes"].items()}
        domain |= {name: {"lower": 0, "upper": task["sizes"][name] - 2} for name in task["numbers"]}

    def run() -> Any:
        share = 0.1 if buys else 0.0
        options = {"proc_epsilon": share * task["epsilon"]} if buys else {"disable_processing": True}
        pipeline = kind(epsilon=(1 - share) * task["epsilon"], delta=task["delta"], n_jobs=1, **options)
        pipeline.fit(table, domain=domain, random_state=task["seed"])
        made = pipeline.generate(n_records=len(frame), random_state=task["seed"])[list(frame)]
        return without_gaps(made, task)

    return run


def with_gaps(frame: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Fine codes as numbers, the last of each, a gap, as NaN."""
    numbers = frame[task["numbers"]].astype(float)
    last = pd.Series({name: task["sizes"][name] - 1 for name in task["numbers"]})
    return frame.assign(**numbers.where(numbers != last))


def without_gaps(made: pd.DataFrame, task: Task) -> np.ndarray:
    """Numbers as fine codes again; -1 for a category that is missing, which no record has."""
    columns = []
    for name, size in task["sizes"].items():
        column = pd.to_numeric(made[name].astype(object)).to_numpy(dtype=float)
        if name in task["numbers"]:
            column = np.where(np.isnan(column), size - 1, np.clip(np.floor(column), 0, size - 2))
        columns.append(np.nan_to_num(column, nan=-1.0).astype(np.int64))
    return np.column_stack(columns)


def smartnoise(task: Task, frame: pd.DataFrame) -> Prepared:
    from snsynth import Synthesizer
    from snsynth.transform import BinTransformer, LabelTransformer
    from snsynth.transform.table import TableTransformer

    np.random.seed(task["seed"])  # noqa: NPY002  which it draws from
    rows = max(task["sizes"].values())
    declared = pd.DataFrame({name: np.arange(rows) % size for name, size in task["sizes"].items()})

    def transformer_of(name: str) -> Any:  # equal bins between declared ends: it has none to buy
        if name in task["numbers"]:
            return BinTransformer(bins=20, lower=0, upper=task["sizes"][name] - 2, nullable=True)
        return LabelTransformer(nullable=False)

    transformer = TableTransformer([transformer_of(name) for name in frame])
    transformer.fit(with_gaps(declared, task))  # the codes that can be, not those that are there
    table = with_gaps(frame, task)

    def run() -> Any:
        synthesizer = Synthesizer.create(task["method"].lower(), epsilon=task["epsilon"], delta=task["delta"])
        synthesizer.fit(table, transformer=transformer)
        made = pd.DataFrame(synthesizer.sample(len(frame)))
        return without_gaps(made.set_axis(list(frame), axis=1), task)

    return run


def mbi(task: Task, frame: pd.DataFrame) -> Prepared:
    """mbi's own scripts; with `"on_pgmest"` their imports of mbi are of pgmest's adapter."""
    import itertools

    import mbi as library

    adapter = "pgmest.adapters.mbi" if task["on_pgmest"] else "mbi"
    script = mbi_script(Path(task["checkout"]) / "mechanisms" / f"{task['method'].lower()}.py", adapter)
    np.random.seed(task["seed"])  # noqa: NPY002  which they draw from
    domain = library.Domain(list(frame), [task["sizes"][name] for name in frame])
    data = library.Dataset(frame, domain)

    def run() -> Any:
        if task["method"] == "MST":
            made = script.MST(data, task["epsilon"], task["delta"])
        else:
            pairs = [(pair, 1.0) for pair in itertools.combinations(domain.attributes, 2)]
            mechanism = script.AIM(task["epsilon"], task["delta"], max_model_size=80)
            _, made = mechanism.run(data, pairs, num_synth_rows=len(frame))
        return made.df[list(frame)].to_numpy()

    return run


def mbi_script(path: Path, adapter: str) -> types.ModuleType:
    """A script of mbi's repository, with the names of the release that is installed."""
    source = path.read_text(encoding="utf-8")
    source = re.sub(r"^from mbi import", f"from {adapter} import", source, flags=re.MULTILINE)
    source = re.sub(r"\.attrs\b", ".attributes", source)
    source = source.replace("ds = DisjointSet()", "ds = DisjointSet(data.domain.attributes)")
    source = source.replace(".map(mapping)", ".map(mapping).astype(int)")  # newer releases check the type
    module = types.ModuleType(path.stem)
    sys.path.insert(0, str(path.parent))
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


LIBRARIES: dict[str, tuple[Callable[[Task, pd.DataFrame], Prepared], tuple[str, ...]]] = {
    "pgmest": (pgmest, ("pgmest", "opendp")),
    "dpmm": (dpmm, ("dpmm", "opendp")),
    "smartnoise-synth": (smartnoise, ("smartnoise-synth", "mbi", "jax")),
    "mbi": (mbi, ("mbi", "jax")),
}
"""Library -> how it runs, and the packages whose versions are noted."""


def main() -> None:
    task: Task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    frame = pd.DataFrame(np.load(task["codes"]), columns=list(task["sizes"]))
    prepare, packages = LIBRARIES[task["library"]]
    run = prepare(task, frame)
    start = time.process_time()  # of all threads, whatever else the machine does
    made = run()
    seconds = time.process_time() - start
    np.save(task["made"], np.asarray(made).astype(np.int64))
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = getattr(sys.modules.get(package), "__version__", "unknown")
    Path(task["said"]).write_text(json.dumps({"seconds": seconds, "versions": versions}), encoding="utf-8")


if __name__ == "__main__":
    main()
