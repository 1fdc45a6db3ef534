"""The accuracy of an estimate: errors on workloads, the scores of the literature, and a report for the data owner.

The functions read real records without noise: their results are private, and for the data owner only.
"""

from pgmest.evaluation.level_errors import LevelError, level_errors
from pgmest.evaluation.linked_errors import LinkedErrors, linked_errors
from pgmest.evaluation.membership import MembershipCheck, membership_check, nearest_distances
from pgmest.evaluation.nist2018 import PayGapDeviation, density_score, gini_index, pay_gap_deviation, range_score
from pgmest.evaluation.nist2020 import KMarginalScore, k_marginal_score
from pgmest.evaluation.prediction import PredictionQuality, svm_misclassification, train_on_synthetic
from pgmest.evaluation.reports import report
from pgmest.evaluation.workload_error import marginal_errors, range_query_mse, workload_error
from pgmest.tables.distances import total_variation

__all__ = [
    "KMarginalScore",
    "LevelError",
    "LinkedErrors",
    "MembershipCheck",
    "PayGapDeviation",
    "PredictionQuality",
    "density_score",
    "gini_index",
    "k_marginal_score",
    "level_errors",
    "linked_errors",
    "marginal_errors",
    "membership_check",
    "nearest_distances",
    "pay_gap_deviation",
    "range_query_mse",
    "range_score",
    "report",
    "svm_misclassification",
    "total_variation",
    "train_on_synthetic",
    "workload_error",
]
