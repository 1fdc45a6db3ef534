"""Records: data sets of codes, linked ones, the engines that hold them, files and dataframes."""

from pgmest.data.dataset import Dataset
from pgmest.data.lazy_dataset import LazyDataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Impossible, Older

__all__ = [
    "AtLeast",
    "AtMost",
    "Dataset",
    "Exactly",
    "Impossible",
    "LazyDataset",
    "LinkedDataset",
    "LinkedTable",
    "Older",
]
