"""The table of a sweep as a Parquet file: columns of one type each, and nothing where nothing is known."""

from __future__ import annotations

import io
import math
from typing import Any

from trajens.errors import InputError
from trajens.sweeps.looks import NUMBERS, columns_of


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    """Rows of `trajens.sweeps.looks.rows_of` as the content of a Parquet file.

    A column is of whole numbers, numbers, truth or text, as narrow as its values allow; what a row lacks, and a number
    that is not known (NaN), is null.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"a table in Parquet needs the extra parquet, got {error}; install it with: pip install "
            "'trajens[parquet]', or write a .csv file."
        ) from None
    arrays = {name: _column(pyarrow, name, [row.get(name) for row in rows]) for name in columns_of(rows)}
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), content)
    return content.getvalue()


def _column(pyarrow: Any, name: str, values: list[Any]) -> Any:
    known = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    kinds = {type(value) for value in known if value is not None}
    if not kinds:
        return pyarrow.array(known, pyarrow.float64() if name in NUMBERS else pyarrow.string())
    for allowed, kind in (({bool}, "bool_"), ({int}, "int64"), ({int, float}, "float64")):
        if kinds <= allowed:
            return pyarrow.array(known, getattr(pyarrow, kind)())
    return pyarrow.array([None if value is None else str(value) for value in known], pyarrow.string())
