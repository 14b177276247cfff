"""What a user holds becomes Rows: the one place that decides what a value, a group, a weight is."""

from fairpca._choices import MAX_CELLS
from fairpca.rows._pairs import UNKNOWN_GROUP
from fairpca.rows.groups import MAX_FLOAT_LEVELS, Groups, Level, encode_groups
from fairpca.rows.rows import Rows

__all__ = [
    "MAX_CELLS",
    "MAX_FLOAT_LEVELS",
    "UNKNOWN_GROUP",
    "Groups",
    "Level",
    "Rows",
    "encode_groups",
]
