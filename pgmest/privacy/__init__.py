"""Differential privacy: budgets that are types, a curator that is the only door to the records, and its ledger.

What is and is not promised: docs/guides/privacy.md.
"""

from pgmest._base.deprecation import Lookup, renamed_names
from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.audit import AuditReport, audit
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, PlannedRho, Rho
from pgmest.privacy.composition import NoiseChoice, best_noise, noise_choices, noise_table
from pgmest.privacy.curator import Curator
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Entry, Ledger, Statement
from pgmest.privacy.loss_distributions import composed
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace
from pgmest.privacy.plans import Plan

__all__ = [
    "GDP",
    "AddRemove",
    "ApproxDP",
    "AuditReport",
    "Budget",
    "Curator",
    "DatasetLedger",
    "Entry",
    "Epsilon",
    "Ledger",
    "Neighbors",
    "NoiseChoice",
    "Plan",
    "PlannedRho",
    "Replace",
    "Rho",
    "Statement",
    "audit",
    "best_noise",
    "composed",
    "least_error_weights",
    "noise_choices",
    "noise_table",
]

__getattr__: Lookup = renamed_names(__name__, {"Neighbours": "pgmest.privacy.Neighbors"})
