"""Data sets of the paper and richer ones: a registry, loaders and synthetic data."""

from fairpca.datasets._embedded import EmbeddedData, load_diabetes_sex
from fairpca.datasets._load import Dataset, load_dataset
from fairpca.datasets._locate import DatasetStatus, data_folders, list_datasets
from fairpca.datasets._registry import DatasetInfo, OpenMLSource, TargetOption, dataset_info
from fairpca.datasets._synthetic import make_two_gaussians

__all__ = [
    "Dataset",
    "DatasetInfo",
    "DatasetStatus",
    "EmbeddedData",
    "OpenMLSource",
    "TargetOption",
    "data_folders",
    "dataset_info",
    "list_datasets",
    "load_dataset",
    "load_diabetes_sex",
    "make_two_gaussians",
]
