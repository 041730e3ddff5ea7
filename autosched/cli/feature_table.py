"""Feature rows as text: a line for each feature that is not 0 everywhere, a column per buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

_LEAST = 9  # characters per column of numbers


def feature_table(
    groups: Mapping[str, Sequence[str]],
    buffers: Sequence[str],
    rows: Sequence[Sequence[float]],
    *,
    width: int,
) -> str:
    """The table, group by group, without features that are 0 in all rows.

    Buffers that do not fit into `width` characters follow in a second table. `rows` has a row for
    each of `buffers`, with a value for each column of `groups`, in order.
    """
    columns = [name for names in groups.values() for name in names]
    label = 2 + max(len(name) for name in columns)
    cell = max(_LEAST, *(min(len(name), 2 * _LEAST) for name in buffers))
    at_once = max(1, (width - label) // (cell + 2))
    parts = []
    for start in range(0, len(rows), at_once):
        some = slice(start, start + at_once)
        parts.append("\n".join(_part(groups, columns, buffers[some], rows[some], label, cell)))
    return "\n\n".join(parts)


def _part(
    groups: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    buffers: Sequence[str],
    rows: Sequence[Sequence[float]],
    label: int,
    cell: int,
) -> Iterator[str]:
    position = {name: k for k, name in enumerate(columns)}
    head = "".join(f"  {name[-cell:]:>{cell}}" for name in buffers)
    for group, names in groups.items():
        used = [name for name in names if any(row[position[name]] for row in rows)]
        if used:
            yield f"{group:{label}}{head}"
        for name in used:
            values = "".join(f"  {row[position[name]]:>{cell}.5g}" for row in rows)
            yield f"  {name:{label - 2}}{values}"
