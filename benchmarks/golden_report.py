"""How far autosched agrees with Ansor on the golden files, as a table.

    python benchmarks/golden_report.py [--workload NAME] [--target cpu|cuda] [--show N]

Columns: DAG texts, flop counts, bound loop states, sets of sketches, feature rows, and candidates
with all rows right. A feature row agrees when all 164 values do, to a relative 1e-5; rows are
compared as a multiset, and so are buffer slots of equal lines and bytes. Ansor writes a row of
zeros for a candidate that it cannot lower; a refusal here counts as such a row. `--show` prints the
first N disagreements.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched import workloads
from autosched.errors import ScheduleError
from autosched.features.compare import canonical_rows
from autosched.features.lowering import features_of_steps
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import golden_lines

COLUMNS = ("dag", "flops", "bound_state", "sketches", "feature rows", "candidates")
Key = tuple[str, str]


class Report:
    """Counts of agreements and of comparisons, per workload and target."""

    def __init__(self, show: int) -> None:
        self.agreed: dict[Key, Counter[str]] = defaultdict(Counter)
        self.total: dict[Key, Counter[str]] = defaultdict(Counter)
        self.show = show

    def add(self, key: Key, column: str, agreed: int, total: int = 1, detail: str = "") -> None:
        """Record a comparison; `detail` is printed when it failed."""
        self.agreed[key][column] += agreed
        self.total[key][column] += total
        if agreed < total and self.show > 0:
            self.show -= 1
            print(f"-- {key[0]} {key[1]} {column}: {agreed}/{total}\n{detail}\n")

    @property
    def disagreements(self) -> int:
        """How many comparisons failed."""
        return sum(total.total() - self.agreed[key].total() for key, total in self.total.items())

    def table(self) -> str:
        """The table, with a line of totals for each target."""
        width = max((len(name) for name, _ in self.total), default=0) + 7
        lines = [f"{'':{width}}" + "".join(f"{column:>15}" for column in COLUMNS)]
        for key in sorted(self.total):
            lines.append(f"{' '.join(key):{width}}" + self._cells([key]))
        for target in sorted({target for _, target in self.total}):
            keys = [key for key in self.total if key[1] == target]
            lines.append(f"{'all ' + target:{width}}" + self._cells(keys))
        return "\n".join(lines)

    def _cells(self, keys: list[Key]) -> str:
        cells = ""
        for column in COLUMNS:
            agreed = sum(self.agreed[key][column] for key in keys)
            total = sum(self.total[key][column] for key in keys)
            cells += f"{f'{agreed}/{total}' if total else '-':>15}"
        return cells


def matching_rows(rows: npt.NDArray[Any], expected: npt.NDArray[Any]) -> int:
    """The number of rows that match distinct expected rows; tied slots may swap."""
    left = list(canonical_rows(expected.astype(np.float32)))
    count = 0
    for row in canonical_rows(rows.astype(np.float32)):
        for k, other in enumerate(left):
            if np.all(np.abs(row - other) <= 1e-5 * np.maximum(1.0, np.abs(other))):
                del left[k]
                count += 1
                break
    return count


def compare(
    line: dict[str, Any], dag: ComputeDAG, report: Report, ignored: Sequence[int] = ()
) -> None:
    """Record all comparisons of one golden line, except the `ignored` columns of its rows."""
    key = (line["workload"], line["target"])
    hardware = HardwareParams.from_list(line["hardware"])
    if "dag" in line:
        text = dag.print_dag()
        report.add(key, "dag", text == line["dag"], detail=text)
    if "sketch_states" in line:
        context = Context(dag, hardware, key[1] == "cuda", SearchOptions(space="ansor"))
        found = {s.to_str() for s in SearchSpace.of(context).sketches}
        expected = set(line["sketch_states"])
        detail = "\n".join(["missing:", *(expected - found), "surplus:", *(found - expected)])
        report.add(key, "sketches", found == expected, detail=detail)
    if "flop_count" in line:
        report.add(key, "flops", dag.flop_count == line["flop_count"], detail=str(dag.flop_count))
    if "bound_state" not in line:
        return
    steps = steps_from_json(line["steps"])
    try:
        text = dag.infer_bound_of(steps).to_str()
    except ScheduleError as error:
        text = f"ScheduleError: {error}"
    report.add(
        key, "bound_state", text == line["bound_state"], detail=f"{text}\n{line['bound_state']}"
    )
    expected_rows = np.array(line["features"], dtype=np.float64)
    detail = f"{line['bound_state']}{json.dumps(line['steps'])}"
    try:
        rows = features_of_steps(dag, steps, Target(line["target"], hardware))
    except ScheduleError as error:
        rows = np.zeros((1, expected_rows.shape[1]), np.float32)
        detail = f"ScheduleError: {error}\n{detail}"
    rows[:, ignored] = expected_rows[:, ignored] = 0
    same = matching_rows(rows, expected_rows)
    report.add(key, "feature rows", same, len(expected_rows), detail)
    whole = same == len(expected_rows) == len(rows)
    report.add(key, "candidates", whole)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--target", choices=("cpu", "cuda"), help="only this one")
    parser.add_argument("--show", type=int, default=0, help="disagreements to print")
    options = parser.parse_args()
    report = Report(options.show)
    dags: dict[str, ComputeDAG] = {}
    for line in golden_lines():
        if "workload" not in line or options.workload not in (None, line["workload"]):
            continue
        if options.target not in (None, line["target"]):
            continue
        name = json.dumps([line["workload"], line["args"]])
        if name not in dags:
            dags[name] = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
        compare(line, dags[name], report)
    print(report.table())


if __name__ == "__main__":
    main()
