"""Train the cost model that comes with autosched on records of many tasks.

    python benchmarks/feature_sets.py collect records/
    python benchmarks/pretrain.py records/*.jsonl --out search/pretrained/cpu-autosched-1.json.gz

`--without OP` leaves the records of an operator out: a search of that operator with such a model
(benchmarks/search_quality.py --models) shows what the model does for operators it has never seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from features.sets import TUNING, feature_set
from measure.records import read_log
from search.cost_model import XGBoostModel
from search.featurize import Helper
from search.learner import Learner
from search.warm_start import warm_start

_ROUNDS, _COLUMNS = 120, 0.3
"""More than where few programs are known: of 37 tasks (8,700 records), trained on those of other
operators (5 groups), 0.798 of pairs are ranked correctly; with the usual 60 and 0.15, 0.787."""


def train(paths: list[Path], kind: str, features: str, without: str | None) -> XGBoostModel:
    """A model of all usable records; prints how many each file has."""
    model = XGBoostModel(0, rounds=_ROUNDS, columns=_COLUMNS)
    learner = Learner(model)
    helper = Helper()
    try:
        for path in paths:
            records = [
                record
                for record in read_log(path).records
                if record.task["workload"].get("op") != without
            ]
            found = warm_start(learner, records, kind, helper, features)
            print(f"{path}: {found.records} records of {found.tasks} tasks", flush=True)
    finally:
        helper.close()
    learner.refresh()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kind", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--features", default=TUNING)
    parser.add_argument("--without", metavar="OP")
    options = parser.parse_args()
    model = train(options.records, options.kind, options.features, options.without)
    model.save(options.out, feature_set(options.features).schema)
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
