"""Differentially private mechanisms, all with the same contract (`pgmest.mechanisms.mechanism`).

Each mechanism is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmest.mechanisms.aim import AIM
    from pgmest.mechanisms.dual_query.dual_query import DualQuery
    from pgmest.mechanisms.hdmm import HDMM
    from pgmest.mechanisms.independent import Independent
    from pgmest.mechanisms.lamp.lamp import LAMP
    from pgmest.mechanisms.mechanism import Mechanism
    from pgmest.mechanisms.mst import MST
    from pgmest.mechanisms.mwem.mwem import MWEM
    from pgmest.mechanisms.pmw_pub.pmw_pub import PMWPub
    from pgmest.mechanisms.ppsyn.ppsyn import PPSyn
    from pgmest.mechanisms.privbayes.privbayes import PrivBayes
    from pgmest.mechanisms.priview.priview import PriView
    from pgmest.mechanisms.privmrf.privmrf import PrivMRF
    from pgmest.mechanisms.privsyn.privsyn import PrivSyn
    from pgmest.mechanisms.result import Result
    from pgmest.mechanisms.topdown.topdown import TopDown
    from pgmest.mechanisms.transformed import Transformed

MECHANISMS = {
    "AIM": "pgmest.mechanisms.aim",
    "DualQuery": "pgmest.mechanisms.dual_query.dual_query",
    "HDMM": "pgmest.mechanisms.hdmm",
    "Independent": "pgmest.mechanisms.independent",
    "MST": "pgmest.mechanisms.mst",
    "MWEM": "pgmest.mechanisms.mwem.mwem",
    "Mechanism": "pgmest.mechanisms.mechanism",
    "LAMP": "pgmest.mechanisms.lamp.lamp",
    "PMWPub": "pgmest.mechanisms.pmw_pub.pmw_pub",
    "PPSyn": "pgmest.mechanisms.ppsyn.ppsyn",
    "PriView": "pgmest.mechanisms.priview.priview",
    "PrivBayes": "pgmest.mechanisms.privbayes.privbayes",
    "PrivMRF": "pgmest.mechanisms.privmrf.privmrf",
    "PrivSyn": "pgmest.mechanisms.privsyn.privsyn",
    "Result": "pgmest.mechanisms.result",
    "TopDown": "pgmest.mechanisms.topdown.topdown",
    "Transformed": "pgmest.mechanisms.transformed",
}
"""The module of each public name."""

__all__ = [
    "AIM",
    "HDMM",
    "LAMP",
    "MST",
    "MWEM",
    "DualQuery",
    "Independent",
    "Mechanism",
    "PMWPub",
    "PPSyn",
    "PriView",
    "PrivBayes",
    "PrivMRF",
    "PrivSyn",
    "Result",
    "TopDown",
    "Transformed",
]


def __getattr__(name: str) -> Any:
    if name not in MECHANISMS:
        raise AttributeError(f"module 'pgmest.mechanisms' has no attribute {name!r}")
    return getattr(import_module(MECHANISMS[name]), name)


def __dir__() -> list[str]:
    return __all__
