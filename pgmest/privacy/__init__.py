"""Differential privacy: budgets that are types, a curator that is the only door to the records, and its ledger.

What is and is not promised: docs/guides/privacy.md.
"""

from pgmest.privacy.allocation import least_error_weights as least_error_weights
from pgmest.privacy.audit import AuditReport as AuditReport
from pgmest.privacy.audit import audit as audit
from pgmest.privacy.budgets import GDP as GDP
from pgmest.privacy.budgets import ApproxDP as ApproxDP
from pgmest.privacy.budgets import Budget as Budget
from pgmest.privacy.budgets import Epsilon as Epsilon
from pgmest.privacy.budgets import Rho as Rho
from pgmest.privacy.composition import NoiseChoice as NoiseChoice
from pgmest.privacy.composition import best_noise as best_noise
from pgmest.privacy.composition import noise_choices as noise_choices
from pgmest.privacy.composition import noise_table as noise_table
from pgmest.privacy.curator import Curator as Curator
from pgmest.privacy.ledger import Entry as Entry
from pgmest.privacy.ledger import Ledger as Ledger
from pgmest.privacy.neighbours import AddRemove as AddRemove
from pgmest.privacy.neighbours import Neighbours as Neighbours
from pgmest.privacy.neighbours import Replace as Replace
