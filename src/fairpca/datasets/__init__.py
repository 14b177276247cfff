"""Data sets of the paper and richer ones: a registry, loaders and synthetic data."""

from fairpca.datasets._builtin import EmbeddedData, load_diabetes_sex, make_two_gaussians
from fairpca.datasets._load import (
    Dataset,
    DatasetStatus,
    data_folders,
    list_datasets,
    load_dataset,
)
from fairpca.datasets._registry import (
    DatasetInfo,
    Definition,
    OpenMLSource,
    TargetOption,
    dataset_info,
)

__all__ = [
    "Dataset",
    "DatasetInfo",
    "DatasetStatus",
    "Definition",
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
