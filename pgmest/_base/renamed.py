"""Modules under other names: short ones that stay, and those of earlier versions, which warn.

`pgmest.errors` is where one looks for errors; the file is in a room of its own. An import of a name listed here, as of
`import pgmest.errors` or `from pgmest.loss import L2Loss`, gives the very module that the new name gives.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

# Names to stay: what `pgmest` shows as an attribute can be imported from, too.
SHORT = {
    "pgmest.datasets": "pgmest.data.datasets",
    "pgmest.errors": "pgmest._base.errors",
    "pgmest.plots": "pgmest.evaluation.plots",
    "pgmest.schema": "pgmest.data.schema",
    "pgmest.simulation": "pgmest.evaluation.simulation",
    "pgmest.uncertainty": "pgmest.models.uncertainty",
    "pgmest.workloads": "pgmest.queries.workloads",
    "pgmest.zeros": "pgmest.tables.zeros",
}

# Names of version 0.1, gone in 1.2. What else was inside these packages was never documented.
DEPRECATED = {
    "pgmest.estimation.mirror_flow": "pgmest.solvers.mirror_flow",
    "pgmest.demo": "pgmest.cli.demo",
    "pgmest.distribution": "pgmest.models.distribution",
    "pgmest.loss": "pgmest.losses",
    "pgmest.measurement_file": "pgmest.measurements.files",
    "pgmest.prior": "pgmest.priors",
    "pgmest.prior.ide_workload": "pgmest.priors.ide.workload",
}


class Renamed:
    """Finds the modules of `SHORT` and `DEPRECATED` under their own names.

    A finder and a loader as the import system asks for them, without the base classes of `importlib.abc`, which would
    load more than the rest of `import pgmest` does.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent = fullname.rpartition(".")[0]
        if fullname not in SHORT | DEPRECATED and parent in SHORT | DEPRECATED:
            # Or else it would be found in the parent's folder, and loaded a second time.
            name = current_name(parent) + fullname.removeprefix(parent)
            raise ModuleNotFoundError(f"No module named {fullname!r}; import {name} instead.", name=fullname)
        return ModuleSpec(fullname, cast(Any, self)) if fullname in SHORT | DEPRECATED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = current_name(spec.name)
        if spec.name in DEPRECATED:
            warnings.warn(f"{spec.name} is now {name}", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run under its own name; the import system has overwritten its spec, which is put back."""
        given = module.__spec__
        if given is not None and given.loader is self:
            module.__spec__ = given.loader_state


def current_name(fullname: str) -> str:
    return SHORT.get(fullname) or DEPRECATED[fullname]


def install() -> None:
    """Let the import system know; once."""
    if not any(isinstance(finder, Renamed) for finder in sys.meta_path):
        sys.meta_path.insert(0, Renamed())  # first, or else what is inside a renamed package is loaded a second time
