"""pgmest: one distribution over all attributes from noisy answers about a few marginals."""
# ruff: noqa: I001  the names are in the order that data flows through them

from pgmest.domain import Domain as Domain
from pgmest.factor import Factor as Factor
from pgmest.clique_vector import CliqueVector as CliqueVector
from pgmest.dataset import Dataset as Dataset
from pgmest import datasets as datasets
from pgmest import errors as errors
from pgmest import queries as queries
from pgmest.queries import Kron as Kron
from pgmest import zeros as zeros
from pgmest.measurement import LinearMeasurement as LinearMeasurement
from pgmest.measurement_file import load_measurements as load_measurements
from pgmest.measurement_file import save_measurements as save_measurements
from pgmest.junction_tree import JunctionTree as JunctionTree
from pgmest.inference.oracles import marginals as marginals
from pgmest.inference.threads import get_threads as get_threads
from pgmest.inference.threads import set_threads as set_threads
from pgmest import loss as loss
from pgmest.model import Model as Model
from pgmest.approximate_model import ApproximateModel as ApproximateModel
from pgmest.estimation.estimate import estimate as estimate
from pgmest import prior as prior
from pgmest.model_file import load as load
from pgmest.schema import Schema as Schema
from pgmest import transforms as transforms
from pgmest import workloads as workloads
from pgmest import evaluation as evaluation
from pgmest import privacy as privacy
from pgmest import mechanisms as mechanisms
from pgmest.synthesizer import Synthesizer as Synthesizer
