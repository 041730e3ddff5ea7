"""benchmarks/pretrain.py on the fake GPU: records, a model of them, and who starts from it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import ConfigError
from autosched.features.sets import TUNING, feature_set
from autosched.measure import gpu_runner
from autosched.measure.records import read_log
from autosched.search import pretrained
from autosched.search.featurize import Helper
from autosched.search.pretrained import pretrained_model
from autosched.session.model import ModelOptions, make_learner
from autosched.target import cuda_target

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def test_a_model_of_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        load_nvrtc("sm_90")
    except ConfigError as error:
        pytest.skip(str(error))
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_mixed_handler")
    pretrain = importlib.import_module("pretrain")
    tasks = [("softmax", {"M": 32, "N": 32}), ("add_relu", {"M": 32, "N": 32})]
    pretrain.collect(tmp_path, 4, 2, cuda_target("sm_90"), tasks)
    paths = sorted(tmp_path.iterdir())
    assert [path.name for path in paths] == ["000_softmax.jsonl", "001_add_relu.jsonl"]
    contents = read_log(paths[0])
    assert all(r.result.valid for r in contents.records)
    guided = [r.search["predicted"] is not None for r in contents.records]
    assert guided[:4] == [False] * 4 and len(guided) == 8 and any(guided[4:])
    assert [e["gpus"][0]["name"] for e in contents.environments.values()] == ["fake GPU"]

    model = pretrain.train(paths, "cuda", TUNING, None)
    model.save(tmp_path / f"cuda-{TUNING}.ubj.gz", feature_set(TUNING).schema)
    pretrain.as_shipped(tmp_path / f"cuda-{TUNING}.ubj.gz")
    monkeypatch.setattr(pretrained, "__file__", str(tmp_path / "__init__.py"))
    assert pretrained_model("cpu", TUNING) is None
    for kind, options, trained in (
        ("cuda", ModelOptions(), True),
        ("cuda", ModelOptions(pretrained=False), False),
        ("cpu", ModelOptions(), False),
    ):
        learner = make_learner(options, TUNING, 0, kind, Helper(), print, print)
        assert learner.trained == trained
