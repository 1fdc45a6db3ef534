"""Records: data sets of codes, the engines that hold them, files and dataframes, and schemas of raw tables."""

from pgmest.data.dataset import Dataset
from pgmest.data.lazy_dataset import LazyDataset

__all__ = ["Dataset", "LazyDataset"]
