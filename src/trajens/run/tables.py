"""Tables of a run for reading: a row for every s, numbers of a summary, and records as a data frame."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import jax
import numpy as np

from trajens.columns import BY_NAME
from trajens.convergence import by_s
from trajens.errors import InputError
from trajens.records import Records, has_summary, summarise

_FORMATS = {
    "s": ".6g",
    "loss_stderr": ".2g",
    "loss_mcse": ".2g",
    "acceptance_rate": BY_NAME["acceptance"].spec,
    "tilt_error_stderr": ".2%",
    "ess": ",.0f",
    "rhat": ".3f",
    "seconds": ".1f",
    **{name: BY_NAME[name].spec for name in ("loss", "batch_size", "data_used", "tilt_error")},
}
"""How numbers are written, by their names; others in four digits."""


class NumberTable(Sequence[dict[str, Any]]):
    """Rows of plain numbers with common names: ``rows[0]`` is a dict, ``rows["loss"]`` an array with one per row.

    It prints as a table, shows as one in a notebook, and `to_dataframe` makes one of pandas.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]):
        self._rows = [dict(row) for row in rows]

    @property
    def columns(self) -> list[str]:
        """The names."""
        return list(self._rows[0]) if self._rows else []

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._rows[which]
        if which not in self.columns:
            raise InputError(f"a column must be one of {', '.join(self.columns)}, got {which!r}; choose one of them.")
        return np.array([row[which] for row in self._rows])

    def to_dataframe(self) -> Any:
        """A ``pandas.DataFrame``; needs pandas."""
        return data_frame(self._rows)

    def __repr__(self) -> str:
        cells = [self.columns, *([write_number(name, value) for name, value in row.items()] for row in self)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(write_number(name, value))}</td>' for name, value in row.items())}</tr>"
            for row in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Summary(dict[str, Any]):
    """Plain numbers by name, as a dict that prints as a table of two columns, and shows as one in a notebook."""

    def __repr__(self) -> str:
        width = max((len(name) for name in self), default=0)
        return "\n".join(f"{name:<{width}}  {write_number(name, value)}" for name, value in self.items())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(write_number(name, value))}</td></tr>"
            for name, value in self.items()
        )
        return f"<table><tbody>{rows}</tbody></table>"


def _parts(summary: Summary) -> tuple[tuple[Any, ...], Any]:
    return tuple(summary.values()), tuple(summary)


# A dict to JAX too, as for jax.tree.map over two of them.
jax.tree_util.register_pytree_node(Summary, _parts, lambda names, values: Summary(zip(names, values, strict=True)))


def write_number(name: str, value: Any) -> str:
    """A number as it stands in a table, in the format of its name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {write_number(key, one)}" for key, one in value.items() if one)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return "-" if np.isnan(value) else str(value)
    usual = "," if isinstance(value, (int, np.integer)) else ".4g"
    return format(value, _FORMATS.get(name, usual))


def rows_by_s(records: Records, burn_in: int) -> NumberTable:
    """One row for the chains of every s, smallest first, over the records after burn-in; none before there are some."""
    if not has_summary(records, burn_in):
        return NumberTable([])
    rows = []
    for group in by_s(records, burn_in):
        found = summarise({name: values[group.chains] for name, values in records.items()}, burn_in)
        rows.append(
            {
                "s": group.s,
                "chains": len(group.chains),
                "draws": group.draws,
                "loss": found["loss"],
                "loss_stderr": found["loss_stderr"],
                "loss_mcse": group.observed["loss"].mcse,
                "acceptance_rate": found["acceptance"],
                "batch_size": found["batch_size"],
                "ess": group.ess,
                "rhat": group.rhat,
            }
        )
    return NumberTable(rows)


def records_frame(records: Records) -> Any:
    """Records as a ``pandas.DataFrame`` of one row for every chain and record; needs pandas."""
    if not records:
        return data_frame([])
    chains, count = records["epoch"].shape
    columns = {name: np.asarray(values).reshape(-1) for name, values in records.items()}
    return data_frame({"chain": np.repeat(np.arange(chains), count), **columns})


def data_frame(content: Any) -> Any:
    """A ``pandas.DataFrame``, or a refusal where pandas is not installed."""
    try:
        return import_module("pandas").DataFrame(content)
    except ImportError as error:
        raise InputError(
            f"to_dataframe needs pandas, which is not installed ({error}); try pip install pandas."
        ) from None
