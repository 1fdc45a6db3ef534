"""A mechanism for linked tables that is not private: it draws whole units of the records again."""

from dataclasses import dataclass, field

import numpy as np

from pgmest.data.linked import LinkedDataset, LinkedTable


@dataclass
class Redrawn:
    """Draws units with replacement, and remembers how it was called."""

    calls: list = field(default_factory=list)

    def fit(self, linked, *, seed=None, **options):
        self.calls.append((linked, seed, options))
        return RedrawnResult(linked)


@dataclass
class RedrawnResult:
    linked: LinkedDataset

    def sample(self, units=None, *, seed=None):
        rng = np.random.default_rng(seed)
        chosen = rng.integers(0, len(self.linked), len(self.linked) if units is None else units)
        rows = {self.linked.root: chosen}
        made = {self.linked.root: LinkedTable(self.linked.tables[self.linked.root].dataset.take(chosen))}
        for name in self.linked.order[1:]:
            parent, parent_rows = self.linked.link(name)
            held = [np.flatnonzero(parent_rows == row) for row in rows[parent]]
            rows[name] = np.concatenate([np.empty(0, dtype=int), *held])
            at = np.repeat(np.arange(len(held)), [len(one) for one in held])
            table = self.linked.tables[name]
            made[name] = LinkedTable(table.dataset.take(rows[name]), parent, at, table.at_most)
        return LinkedDataset(made, self.linked.rules, self.linked.unit)
