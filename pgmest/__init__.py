"""pgmest: one distribution over all attributes from noisy answers about a few marginals."""

from pgmest.clique_vector import CliqueVector as CliqueVector
from pgmest.domain import Domain as Domain
from pgmest.factor import Factor as Factor
