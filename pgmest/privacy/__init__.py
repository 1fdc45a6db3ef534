"""Differential privacy: typed budgets, a curator through which all access to the records goes, and its ledger.

docs/guides/privacy.md says what is promised and what is not.
"""

from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.audit import AuditReport, audit
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, Rho
from pgmest.privacy.composition import NoiseChoice, best_noise, noise_choices, noise_table
from pgmest.privacy.curator import Curator
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Entry, Ledger, Statement
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace

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
    "Replace",
    "Rho",
    "Statement",
    "audit",
    "best_noise",
    "least_error_weights",
    "noise_choices",
    "noise_table",
]
