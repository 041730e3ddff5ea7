"""Feature rows by name: dictionaries and pandas frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import DEFAULT, feature_set

if TYPE_CHECKING:
    import pandas as pd


def as_dicts(rows: FeatureRows, name: str = DEFAULT) -> list[dict[str, float]]:
    """Each row as {column: value}, in the order of the columns of feature set `name`."""
    columns = feature_set(name).columns
    return [dict(zip(columns, row, strict=True)) for row in rows.tolist()]


def as_frame(rows: FeatureRows, name: str = DEFAULT, *, group: str | None = None) -> pd.DataFrame:
    """The rows as a frame whose columns are the set's names; those of one `group` if given.

    For `ansor-0.19` the groups are computation, buffer access, arithmetic intensity, allocation
    and outer scope.
    """
    import pandas as pd

    chosen = feature_set(name)
    frame = pd.DataFrame(rows, columns=list(chosen.columns))
    return frame if group is None else frame[list(chosen.groups[group])]
