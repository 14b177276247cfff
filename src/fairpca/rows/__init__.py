"""What a user holds becomes Rows: the one place that decides what a value, a group, a weight is."""

from fairpca._choices import MAX_CELLS
from fairpca.rows._checks import check_container, check_feature_names, check_matrix, check_weights
from fairpca.rows._columns import (
    missing_groups_error,
    missing_rows,
    split_named,
    without_columns,
)
from fairpca.rows._folds import fold_of
from fairpca.rows._identifiers import (
    Unique,
    find_identifiers,
    identifier_text,
    merge_unique,
    unique_columns,
)
from fairpca.rows._missing import (
    MISSING_ADVICE,
    MISSING_GROUP,
    check_complete,
    count_text,
    fill_means,
    holds_nan,
    imputed,
    known_means,
    name_counts,
    nan_places,
)
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
    "MISSING_ADVICE",
    "MISSING_GROUP",
    "UNKNOWN_GROUP",
    "Attribute",
    "Groups",
    "Level",
    "NumericAttribute",
    "Pair",
    "Rows",
    "Stratum",
    "Unique",
    "check_cells",
    "check_compare",
    "check_complete",
    "check_container",
    "check_feature_names",
    "check_matrix",
    "check_weights",
    "count_text",
    "encode_groups",
    "face",
    "fill_means",
    "find_identifiers",
    "fold_of",
    "holds_nan",
    "identifier_text",
    "imputed",
    "intersection",
    "known_means",
    "known_rows",
    "merge_unique",
    "missing_groups_error",
    "missing_rows",
    "name_counts",
    "nan_places",
    "numeric_strata_error",
    "sort_levels",
    "split_named",
    "too_many_cells",
    "unique_columns",
    "without_columns",
]
