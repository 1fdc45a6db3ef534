"""The accuracy of an estimate: errors on workloads, and a report for the data owner.

The functions read real records without noise: their results are private, and for the data owner only.
"""

from pgmest.evaluation.level_errors import LevelError, level_errors
from pgmest.evaluation.linked_errors import LinkedErrors, linked_errors
from pgmest.evaluation.reports import report
from pgmest.evaluation.workload_error import marginal_errors, range_query_mse, workload_error
from pgmest.tables.distances import total_variation

__all__ = [
    "LevelError",
    "LinkedErrors",
    "level_errors",
    "linked_errors",
    "marginal_errors",
    "range_query_mse",
    "report",
    "total_variation",
    "workload_error",
]
