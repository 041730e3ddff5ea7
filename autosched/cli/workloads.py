"""`autosched workloads`: the built-in operators."""

from __future__ import annotations

from autosched import workloads
from autosched.cli.console import plain


def run(name: str | None) -> None:
    """List all workloads, or show one with its computation for small arguments."""
    if name is None:
        width = max(map(len, workloads.WORKLOADS))
        for workload in workloads.WORKLOADS.values():
            plain(f"{workload.name:{width}}  {workload.doc}")
        plain("\n`autosched workloads NAME` shows the arguments of one.")
        return
    workload = workloads.get(name)
    plain(f"{workload.signature()}\n    {workload.doc}\n\narguments:")
    for key, default in workload.args.items():
        least = 0 if key in workload.may_be_zero else 1
        needed = "required" if default is None else f"default {default}"
        plain(f"    {key:10} integer >= {least}, {needed}")
    plain(f"    {'dtype':10} one of {', '.join(workload.dtypes)}, default {workload.dtypes[0]}")
