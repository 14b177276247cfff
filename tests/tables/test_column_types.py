"""A column means its values, in whichever type Arrow holds it."""

import numpy as np
import pyarrow as pa
import pytest
from table_support import assert_same_moments, people

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_arrow, open_table, project_table


class Tagged(pa.ExtensionType):
    """A type of somebody's own, stored as another one."""

    def __init__(self, storage):
        super().__init__(storage, "test.tagged")

    def __arrow_ext_serialize__(self):
        return b""


def tagged(column):
    return pa.ExtensionArray.from_storage(Tagged(column.type), column)


WAYS = {
    "dictionary": lambda a: a.dictionary_encode(),
    "small dictionary": lambda a: a.dictionary_encode().cast(pa.dictionary(pa.int8(), a.type)),
    "runs": pa.compute.run_end_encode,
    "own": tagged,
    "own dictionary": lambda a: tagged(a.dictionary_encode()),
}
TEXT = {
    "large": lambda a: a.cast(pa.large_string()),
    "view": lambda a: a.cast(pa.string_view()),
    "large dictionary": lambda a: a.cast(pa.large_string()).dictionary_encode(),
}
NUMBERS = {
    "float32": lambda a: a.cast(pa.float32()),
    "int8": lambda a: a.cast(pa.int8()),
    "uint64": lambda a: a.cast(pa.uint64()),
    "decimal": lambda a: a.cast(pa.int64()).cast(pa.decimal128(20, 0)),
}


@pytest.mark.parametrize("name", {**WAYS, **TEXT, **NUMBERS})
def test_moments_of_every_type(name):
    frame = people(80)
    frame["a"], frame["colour"] = np.arange(80) % 17.0, np.resize(["red", "blue", "grey"], 80)
    frame["w"] = np.arange(80) % 5 + 1.0
    table = pa.Table.from_pandas(frame, preserve_index=False)
    numbers = {"a", "w"} if name not in TEXT else set()
    text = {"sex", "city", "colour"} if name not in NUMBERS else set()
    way = {**WAYS, **TEXT, **NUMBERS}[name]
    arrays = [
        way(column.combine_chunks()) if column_name in numbers | text else column
        for column_name, column in zip(table.column_names, table.columns, strict=True)
    ]
    parts = {
        "sensitive": "sex", "features": ["a", "b"], "categorical": "colour", "control": "city",
        "weight": "w",
    }  # fmt: skip
    other = pa.table(arrays, table.column_names)
    found, expected = (moments_from_arrow(one, **parts) for one in (other, table))
    assert_same_moments(found, expected, 1e-12)


@pytest.mark.parametrize(("separator", "is_said"), [(",", False), (";", True), ("\t", True)])
def test_what_a_model_lacks_names_the_separator_where_it_seems_another(
    separator, is_said, tmp_path
):
    frame = people(30)
    model = FairPCA(1, standardize=True).fit(frame[["a", "b"]], sensitive_features=frame["sex"])
    for names in (["a", "q"], ["q"]):
        path = tmp_path / "x.csv"
        frame.assign(q=1.0)[names].to_csv(path, sep=separator, index=False)
        with pytest.raises(InvalidInputError) as caught:
            project_table(open_table(path), model, tmp_path / "y.csv")
        is_one = is_said and len(names) > 1
        assert ("separated by something else" in str(caught.value)) == is_one
        assert (caught.value.parameter == "separator") == is_one
