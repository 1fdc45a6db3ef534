"""How good an estimate is: errors on workloads, the scores of the literature, and a report for the data's owner.

Everything here that is given real records reads them without noise: the results are private, for the data owner's eyes.
"""

from pgmest.evaluation.membership import MembershipCheck as MembershipCheck
from pgmest.evaluation.membership import membership_check as membership_check
from pgmest.evaluation.membership import nearest_distances as nearest_distances
from pgmest.evaluation.metrics import total_variation as total_variation
from pgmest.evaluation.nist2018 import PayGapDeviation as PayGapDeviation
from pgmest.evaluation.nist2018 import density_score as density_score
from pgmest.evaluation.nist2018 import gini_index as gini_index
from pgmest.evaluation.nist2018 import pay_gap_deviation as pay_gap_deviation
from pgmest.evaluation.nist2018 import range_score as range_score
from pgmest.evaluation.nist2020 import KMarginalScore as KMarginalScore
from pgmest.evaluation.nist2020 import k_marginal_score as k_marginal_score
from pgmest.evaluation.prediction import PredictionQuality as PredictionQuality
from pgmest.evaluation.prediction import svm_misclassification as svm_misclassification
from pgmest.evaluation.prediction import train_on_synthetic as train_on_synthetic
from pgmest.evaluation.reports import report as report
from pgmest.evaluation.workload_error import marginal_errors as marginal_errors
from pgmest.evaluation.workload_error import range_query_mse as range_query_mse
from pgmest.evaluation.workload_error import workload_error as workload_error
