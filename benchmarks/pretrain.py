r"""Train the cost model that comes with autosched on records of many tasks.

    tar xf benchmarks/data/pretrain_zen4.tar.xz
    tar xf benchmarks/data/search_quality_sapphire_rapids.tar.xz
    python benchmarks/pretrain.py train pretrain_zen4/avx512/*.jsonl pretrain_zen4/avx2/*.jsonl \
        search_quality/*.jsonl --out search/pretrained/NAME.ubj.gz

That makes the model for CPUs in the repository again, in two minutes, as after a change of the
features. The records of a Zen 4 are those that

    python benchmarks/pretrain.py collect avx512/
    python benchmarks/pretrain.py collect avx2/ --avx2 --tasks 53 --random 32 --guided 48

measured, in 40 and 10 minutes. Another machine measured those of the second archive: times only
count within their task. For GPUs, on a machine that has one:

    python benchmarks/pretrain.py collect gpu-records/ --arch sm_90
    python benchmarks/pretrain.py train gpu-records/*.jsonl --kind cuda --out FILE

The model for GPUs in the repository is trained on benchmarks/data/gpu_h200.tar.xz, which was
collected before searches chose candidates (`--guided 0`). `train --without OP` leaves out the
records of an operator. A search of that operator with such a model (benchmarks/search_quality.py
--models) shows the effect of the model on operators that it has never seen.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pretrain_tasks import GPU_TASKS, TASKS, Named

from autosched.features.sets import TUNING, feature_set
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.measure.run_options import RunOptions
from autosched.search.cost_model import XGBoostModel, make_cost_model
from autosched.search.featurize import Helper
from autosched.search.learner import Learner
from autosched.search.model_file import unpacked
from autosched.search.pretrained import start_pretrained
from autosched.search.tuner import TuneOptions, Tuner
from autosched.search.warm_start import warm_start
from autosched.session.reading import each_once
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task

_ROUNDS, _COLUMNS = 120, 0.3
"""Larger than where few programs are known.

With training on the records of other operators (5 groups of 37 tasks, 8,700 records), 0.798 of the
pairs are ranked correctly; with the usual 60 and 0.15, 0.787.
"""

RANDOM, GUIDED = 64, 64
_SEARCHES = 2
"""Guided searches of each task, with different seeds."""


def collect(folder: Path, random: int, guided: int, target: Target, tasks: Sequence[Named]) -> None:
    """Measure candidates of every task, with a file for each task; existing files are kept.

    `random` candidates are drawn at random. Two searches, which start from the model in the
    repository, choose `guided` others each: a model that has only seen random candidates does not
    tell the fast ones apart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Measurer.create(
        options=RunOptions(10.0, 20.0), check="none", target=target.kind
    ) as measurer:
        measurer.require([target] if target.is_gpu else [])
        beside = measurer.environment()
        for number, (name, args) in enumerate(tasks):
            path = folder / f"{number:03}_{name}.jsonl"
            if path.exists():
                continue
            task = Task.from_workload(name, target=target, **args)
            searches = [TuneOptions(random, seed=100 + number, cost_model="random")]
            searches += [TuneOptions(guided, seed=200 + number + k) for k in range(_SEARCHES)]
            partial = path.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            log = RecordLog(partial, beside=beside)
            for options in searches:
                learner = Learner(make_cost_model(options.cost_model, options.seed))
                start_pretrained(learner.model, target.kind, options.features)
                if Tuner(task, options, measurer, log, learner=learner).run().interrupted:
                    return
            partial.rename(path)
            print(f"{task.name}: done", flush=True)


def train(paths: list[Path], kind: str, features: str, without: str | None) -> XGBoostModel:
    """Train a model on all usable records; print how many each file has."""
    model = XGBoostModel(0, rounds=_ROUNDS, columns=_COLUMNS)
    learner = Learner(model)
    helper = Helper()
    try:
        for path in each_once(paths, print):
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


def as_shipped(path: Path) -> None:
    """Rewrite a JSON model as UBJSON, the format of the model in the package."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(bytearray(unpacked(path.read_bytes())))
    path.write_bytes(gzip.compress(bytes(booster.save_raw("ubj")), mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect", help="measure candidates of each task")
    first.add_argument("folder", type=Path)
    first.add_argument("--random", type=int, default=RANDOM, help="random candidates of each task")
    first.add_argument("--guided", type=int, default=GUIDED, help="trials of each search")
    first.add_argument("--tasks", type=int, help="only the first so many")
    where = first.add_mutually_exclusive_group()
    where.add_argument("--avx2", action="store_true", help="as on a CPU with AVX2 alone")
    where.add_argument("--arch", help="measure on the GPU, which is an sm_90 or the like")
    second = commands.add_parser("train", help="train the model on records")
    second.add_argument("records", type=Path, nargs="+")
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--kind", default="cpu", choices=["cpu", "cuda"])
    second.add_argument("--features", default=TUNING)
    second.add_argument("--without", metavar="OP")
    options = parser.parse_args()
    if options.command == "collect":
        target = cuda_target(options.arch) if options.arch else cpu_target()
        if options.avx2:
            target = replace(target, cpu="znver3", features="+avx,+avx2,+fma", vector_bytes=32)
        tasks = (GPU_TASKS if target.is_gpu else TASKS)[: options.tasks]
        collect(options.folder, options.random, options.guided, target, tasks)
        return
    if not options.out.parent.is_dir():  # checked before the minutes of training
        parser.error(f"--out {options.out}: there is no folder {options.out.parent}")
    model = train(options.records, options.kind, options.features, options.without)
    model.save(options.out, feature_set(options.features).schema, overwrite=True)
    if options.out.name.endswith(".ubj.gz"):
        as_shipped(options.out)
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
