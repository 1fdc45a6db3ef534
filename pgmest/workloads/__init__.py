"""Workloads: the weighted linear queries that a release should answer well, and their answers from any source.

A workload tells a mechanism what matters, and an evaluation what to compare. Everything that has marginals answers
it: a Dataset exactly, a Model or a mechanism's result as an estimate.
"""

from pgmest.workloads.answers import Projectable as Projectable
from pgmest.workloads.families import all_kway as all_kway
from pgmest.workloads.families import as_workload as as_workload
from pgmest.workloads.families import extended_triples as extended_triples
from pgmest.workloads.families import marginals as marginals
from pgmest.workloads.families import prefixes as prefixes
from pgmest.workloads.families import random_kway as random_kway
from pgmest.workloads.families import random_ranges as random_ranges
from pgmest.workloads.families import random_triples as random_triples
from pgmest.workloads.families import ranges as ranges
from pgmest.workloads.item import Item as Item
from pgmest.workloads.workload import Workload as Workload
from pgmest.workloads.workload import closure as closure
