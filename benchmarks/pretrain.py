"""Train the cost model that comes with autosched on records of many tasks.

    python benchmarks/feature_sets.py collect records/
    python benchmarks/pretrain.py collect records/
    python benchmarks/pretrain.py train records/*.jsonl --out search/pretrained/NAME.ubj.gz

or, for GPUs, on a machine that has one:

    python benchmarks/pretrain.py collect gpu-records/ --arch sm_90
    python benchmarks/pretrain.py train gpu-records/*.jsonl --kind cuda --out FILE

The model for GPUs in the repository is trained on benchmarks/data/gpu_h200.tar.xz. The first two
commands measure random candidates of eight tasks and of 38 others. The model in the repository is
trained on 400 and 128 candidates of each of these tasks, on 128 candidates of each of the first 33
others for an AVX2 target (half an hour on two cores of a Zen 4), and on 200 random candidates from
each file of benchmarks/data/search_quality_sapphire_rapids.tar.xz, which another machine measured:
times only count within their task. `train --without OP` leaves out the records of an operator. A
search of that operator with such a model (benchmarks/search_quality.py --models) shows the effect
of the model on operators that it has never seen.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shapes import conv2d, image

from autosched.features.sets import TUNING, feature_set
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.measure.run_options import RunOptions
from autosched.search.cost_model import XGBoostModel
from autosched.search.featurize import Helper
from autosched.search.learner import Learner
from autosched.search.model_file import unpacked
from autosched.search.tuner import TuneOptions, Tuner
from autosched.search.warm_start import warm_start
from autosched.session.reading import each_once
from autosched.target import Target, cuda_target
from autosched.task import Task

_ROUNDS, _COLUMNS = 120, 0.3
"""Larger than where few programs are known.

With training on the records of other operators (5 groups of 37 tasks, 8,700 records), 0.798 of the
pairs are ranked correctly; with the usual 60 and 0.15, 0.787.
"""

CANDIDATES = 128


TASKS: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    ("conv2d_nhwc", conv2d(14, 256, 256, 3)),
    ("conv1d_nlc", {"N": 1, "L": 1024, "CI": 128, "CO": 256, "K": 3, "stride": 1, "padding": 1}),
    ("batch_matmul", {"B": 12, "M": 384, "N": 384, "K": 64}),
    ("depthwise_conv2d_nhwc", image(112, 3, C=96)),
    ("conv2d_nchw_bn_relu", image(56, 3, CI=64, CO=64)),
    ("conv3d_ndhwc", image(28, 3, D=8, CI=32, CO=64)),
    ("conv2d_transpose_nhwc", image(16, 4, CI=256, CO=128, stride=2)),
    ("matmul", {"M": 128, "N": 3072, "K": 768}),
    ("conv2d_nhwc", conv2d(224, 3, 64, 7, stride=2, padding=3)),
    ("dense_bias_relu", {"M": 128, "N": 3072, "K": 768}),
    ("conv2d_capsule_nhwijc", image(16, 3, CI=32, CO=32)),
    ("matmul", {"M": 500, "N": 1000, "K": 333}),
    ("conv2d_nhwc", conv2d(28, 128, 256, 1, padding=0)),
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 128, "H": 12, "D": 64}),
    ("depthwise_conv2d_nhwc", image(28, 5, C=240, stride=2, padding=2)),
    ("matmul", {"M": 256, "N": 256, "K": 256}),
    ("conv2d_nchw_bn_relu", image(14, 3, CI=256, CO=256)),
    ("batch_matmul", {"B": 8, "M": 64, "N": 512, "K": 512}),
    ("conv2d_nhwc", conv2d(56, 64, 128, 3, stride=2)),
    ("softmax", {"M": 2048, "N": 1000}),
    ("layer_norm", {"M": 1024, "N": 768}),
    ("norm_bmn", {"B": 16, "M": 256, "N": 256}),
    ("max_pool2d_nchw", image(112, 3, C=64, stride=2)),
    ("matmul", {"M": 2048, "N": 2048, "K": 512}),
    ("conv1d_nlc", {"N": 4, "L": 128, "CI": 256, "CO": 256, "K": 5, "stride": 1, "padding": 2}),
    ("dense_bias_relu", {"M": 1, "N": 4096, "K": 1024}),
    ("conv2d_nhwc", conv2d(28, 128, 128, 3, padding=2, dilation=2)),
    ("conv3d_ndhwc", image(14, 3, D=16, CI=64, CO=64, stride=2)),
    ("matmul", {"M": 512, "N": 512, "K": 512, "in_dtype": "int8"}),
    ("matmul", {"M": 384, "N": 768, "K": 768, "in_dtype": "bfloat16"}),
    ("conv2d_nhwc", {**conv2d(28, 128, 128, 3), "in_dtype": "uint8", "weight_dtype": "int8"}),
    ("dense_bias_relu", {"M": 64, "N": 1024, "K": 1024, "in_dtype": "bfloat16"}),
    ("conv2d_transpose_nhwc", image(14, 3, CI=64, CO=48, stride=2)),
    ("conv2d_transpose_nhwc", image(32, 4, CI=128, CO=64, stride=2)),
    ("conv2d_transpose_nhwc", image(8, 4, CI=256, CO=128, stride=2)),
    ("max_pool2d_nchw", image(57, 3, C=30, stride=1)),
    ("max_pool2d_nchw", image(28, 3, C=192, stride=1)),
]


_HALF = {"acc_dtype": "float32"}  # these use tensor cores

GPU_TASKS: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    ("conv2d_nhwc", conv2d(56, 64, 64, 3)),
    ("matmul", {"M": 2048, "N": 2048, "K": 2048, "dtype": "bfloat16", **_HALF}),
    ("softmax", {"M": 4096, "N": 1024}),
    ("matmul", {"M": 512, "N": 1000, "K": 2048}),
    ("depthwise_conv2d_nhwc", image(112, 3, C=32)),
    ("conv2d_nhwc", {**conv2d(56, 64, 64, 3), "N": 8, "dtype": "float16", **_HALF}),
    ("layer_norm", {"M": 4096, "N": 1024}),
    ("dense_bias_relu", {"M": 256, "N": 1024, "K": 1024}),
    ("batch_matmul", {"B": 16, "M": 512, "N": 512, "K": 64}),
    ("conv2d_nchw_bn_relu", image(56, 3, CI=64, CO=64)),
    ("max_pool2d_nchw", image(112, 3, C=64, stride=2)),
    ("conv2d_nhwc", conv2d(7, 512, 512, 3)),  # these reduce in slices
    ("dense_bias_relu", {"M": 32, "N": 1000, "K": 2048}),
    ("matmul", {"M": 64, "N": 64, "K": 8192}),
]


def collect(
    folder: Path,
    candidates: int,
    target: Target | None = None,
    tasks: Sequence[tuple[str, dict[str, Any]]] | None = None,
) -> None:
    """Measure random candidates of every task, with a file for each task; existing files are kept.

    `target` is this machine's CPU unless it is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kind = "cpu" if target is None else target.kind
    if tasks is None:
        tasks = TASKS if target is None else GPU_TASKS
    with Measurer.create(options=RunOptions(10.0, 50.0, 3), target=kind) as measurer:
        measurer.require([] if target is None else [target])
        beside = measurer.environment()
        for number, (name, args) in enumerate(tasks):
            path = folder / f"{number:02}_{name}.jsonl"
            if path.exists():
                continue
            task = Task.from_workload(name, target=target or "cpu", **args)
            options = TuneOptions(trials=candidates, seed=100 + number, cost_model="random")
            log = RecordLog(path, beside=beside)
            if Tuner(task, options, measurer, log).run().interrupted:
                break
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
    first = commands.add_parser("collect", help="measure random candidates")
    first.add_argument("folder", type=Path)
    first.add_argument("--candidates", type=int, default=CANDIDATES)
    first.add_argument("--arch", help="measure on the GPU, which is an sm_90 or the like")
    second = commands.add_parser("train", help="train the model on records")
    second.add_argument("records", type=Path, nargs="+")
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--kind", default="cpu", choices=["cpu", "cuda"])
    second.add_argument("--features", default=TUNING)
    second.add_argument("--without", metavar="OP")
    options = parser.parse_args()
    if options.command == "collect":
        target = cuda_target(options.arch) if options.arch else None
        collect(options.folder, options.candidates, target)
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
