"""What a user holds becomes Rows: the one place that decides what a value, a group, a weight is."""

from fairpca._choices import MAX_CELLS
from fairpca.rows._checks import check_feature_names, check_matrix, check_weights
from fairpca.rows._columns import missing_groups_error, split_named, without_columns
from fairpca.rows._pairs import (
    UNKNOWN_GROUP,
    Pair,
    Stratum,
    check_compare,
    face,
    intersection,
    known_rows,
)
from fairpca.rows.groups import (
    MAX_FLOAT_LEVELS,
    Attribute,
    Groups,
    Level,
    NumericAttribute,
    check_cells,
    encode_groups,
    sort_levels,
    too_many_cells,
)
from fairpca.rows.rows import Rows, numeric_strata_error

__all__ = [
    "MAX_CELLS",
    "MAX_FLOAT_LEVELS",
    "UNKNOWN_GROUP",
    "Attribute",
    "Groups",
    "Level",
    "NumericAttribute",
    "Pair",
    "Rows",
    "Stratum",
    "check_cells",
    "check_compare",
    "check_feature_names",
    "check_matrix",
    "check_weights",
    "encode_groups",
    "face",
    "intersection",
    "known_rows",
    "missing_groups_error",
    "numeric_strata_error",
    "sort_levels",
    "split_named",
    "too_many_cells",
    "without_columns",
]
