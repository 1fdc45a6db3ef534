"""Differential privacy: typed budgets, a curator through which all access to the records goes, and its ledger.

docs/guides/privacy.md says what is promised and what is not.
"""

from pgmest.privacy.allocation import least_error_weights
from pgmest.privacy.audit import AuditReport, audit
from pgmest.privacy.budgets import GDP, ApproxDP, Budget, Epsilon, PlannedRho, Rho
from pgmest.privacy.charge_plan import ChargePlan
from pgmest.privacy.composition import NoiseChoice, best_noise, noise_choices, noise_table
from pgmest.privacy.curator import Curator
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Entry, Ledger, Statement
from pgmest.privacy.loss_distributions import composed
from pgmest.privacy.neighbors import AddRemove, Neighbors, Replace

__all__ = [
    "GDP",
    "AddRemove",
    "ApproxDP",
    "AuditReport",
    "Budget",
    "ChargePlan",
    "Curator",
    "DatasetLedger",
    "Entry",
    "Epsilon",
    "Ledger",
    "Neighbors",
    "NoiseChoice",
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
