"""`autosched workloads`: list the built-in operators."""

from __future__ import annotations

from autosched import workloads
from autosched.cli.console import plain, say, text_width
from autosched.cli.table import table
from autosched.words import either


def run(name: str | None) -> None:
    """List all workloads, or describe the one called `name`."""
    if name is None:
        rows = [(each.name, each.doc) for each in workloads.WORKLOADS.values()]
        for line in table(("", ""), rows, text_width()):
            plain(line)
        plain("")
        say("`autosched workloads NAME` shows the arguments of one.")
        return
    workload = workloads.get(name)
    say(workload.signature())
    say(workload.doc, "    ")
    plain("\narguments:")
    for key, default in workload.args.items():
        values = f"integer >= {workload.least.get(key, 1)}"
        if key in workload.choices:
            values = either(map(str, workload.choices[key]))
        needed = "required" if default is None else f"default {default}"
        say(f"{key:12} {values}, {needed}", "    ")
    for key in workload.types.names:
        say(f"{key:12} {workload.types.meaning(key)}", "    ")
