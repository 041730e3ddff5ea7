"""Saved models are checked before XGBoost, which trusts what it loads, sees them."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search import model_file
from autosched.search.cost_model import XGBoostModel
from kit.tiny_model import tiny_model

TREE = "learner.gradient_booster.model.trees.3"


def changed(path: str, value: Any) -> dict[str, Any]:
    """The tiny model with `value` at the dotted place."""
    data: Any = tiny_model()
    *way, last = path.split(".")
    place = data
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return dict(data)


@pytest.mark.parametrize("name", ["m.json", "m.json.gz"])
def test_what_is_whole_is_loaded_as_it_is(tmp_path: Path, name: str) -> None:
    raw = json.dumps(tiny_model(rounds=2)).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    rows = np.eye(4, dtype=np.float32)
    checked, plain = XGBoostModel(), XGBoostModel()
    checked.load(tmp_path / name, num_features=4, schema="x/1")
    plain.load(tmp_path / name, checked=False)
    programs = [rows[:2], rows[2:]]
    np.testing.assert_array_equal(checked.opinions(programs), plain.opinions(programs))
    checked.fit(programs, [1.0, 0.5])
    again = tmp_path / f"again-{name}"
    checked.save(again, "x/1")
    XGBoostModel().load(again, schema="x/1")
    assert (again.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (f"{TREE}.left_children", [1, 2, -1], r"trees\[3\]: its nodes are no tree"),
        (f"{TREE}.left_children", [0, -1, -1], r"trees\[3\]: its nodes are no tree"),
        (f"{TREE}.right_children", [3, -1, -1], r"trees\[3\]: its nodes are no tree"),
        (f"{TREE}.right_children", [2**40, -1, -1], r"right_children: expected integers of 32"),
        (f"{TREE}.parents", [2147483647, 1, 0], "parents: they are not those"),
        (f"{TREE}.split_indices", [4, 0, 0], "split_indices: expected 0 to 3"),
        (f"{TREE}.split_indices", [-1, 0, 0], "split_indices: expected 0 to 3"),
        (f"{TREE}.split_conditions", [0.5, float("nan"), 0], "finite numbers of 32 bits"),
        (f"{TREE}.split_conditions", [0.5, 1e30, 0], "a leaf of more than 1000"),
        (f"{TREE}.split_conditions", [0.5], "expected a list of 3 numbers"),
        (f"{TREE}.split_type", [1, 0, 0], "categories, which no feature"),
        (f"{TREE}.tree_param.num_nodes", "2000000", "expected 1 to 1048576, found 2000000"),
        (f"{TREE}.tree_param.num_nodes", "4", "expected a list of 4 numbers"),
        (f"{TREE}.tree_param.size_leaf_vector", "8", "expected 1, found 8"),
        (f"{TREE}.tree_param.num_feature", "1000", "num_feature: expected 4, found 1000"),
        (TREE, None, r"trees\[3\]: expected an object"),
        ("learner.gradient_booster.model.tree_info", [9] * 8, "tree_info: it is not that of 8"),
        ("learner.gradient_booster.name", "gblinear", "expected gbtree, found 'gblinear'"),
        ("learner.learner_model_param.num_target", "7", "expected 8, found 7"),
        ("learner.learner_model_param.base_score", "[1,2]", "expected 1 or 8 numbers, found 2"),
        ("learner.objective.name", "multi:softmax", "expected reg:squarederror"),
        ("learner.attributes.offset", "1e999", "offset: expected a number up to 1000"),
        ("learner.attributes.feature_set", 7, "feature_set: expected text, found 7"),
        ("version", [3], "version: expected three numbers"),
        ("learner", [], "learner: expected an object"),
    ],
)
def test_what_is_odd_is_refused_by_its_place(
    tmp_path: Path, path: str, value: Any, said: str
) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(ConfigError, match=rf"cannot read the cost model .*m\.json: .*{said}"):
        XGBoostModel().load(file)


def test_deep_trees_and_large_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_model()
    tree = data["learner"]["gradient_booster"]["model"]["trees"][0]
    inner = 100  # a chain: node 2k has the children 2k + 1, a leaf, and 2k + 2
    nodes = 2 * inner + 1
    tree["tree_param"]["num_nodes"] = str(nodes)
    at = range(nodes)
    tree["left_children"] = [k + 1 if k % 2 == 0 and k < nodes - 1 else -1 for k in at]
    tree["right_children"] = [k + 2 if k % 2 == 0 and k < nodes - 1 else -1 for k in at]
    tree["parents"] = [2147483647, *((k - 1) // 2 * 2 for k in range(1, nodes))]
    for name in ("base_weights", "loss_changes", "split_conditions", "sum_hessian"):
        tree[name] = [0.5] * nodes
    for name in ("default_left", "split_indices"):
        tree[name] = [0] * nodes
    file = tmp_path / "m.json"
    file.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match=r"trees\[0\]: it is more than 64 levels deep"):
        XGBoostModel().load(file)
    monkeypatch.setattr(model_file, "MOST_BYTES", 1 << 20)
    file.write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(ConfigError, match="unpacks to more than 1 MiB"):
        XGBoostModel().load(file)
    file.write_bytes(b"{" + bytes(2 << 20))
    with pytest.raises(ConfigError, match="it has more than 1 MiB"):
        XGBoostModel().load(file)
    with pytest.raises(ConfigError, match="it has more than 1 MiB"):
        XGBoostModel().load("/dev/zero")
    file.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="it is not XGBoost's JSON"):
        XGBoostModel().load(file)


def test_memory_is_taken_for_what_there_is(tmp_path: Path) -> None:
    """256 MiB were, for any model: with `ulimit -v` at 700 MB tuning ended in a MemoryError."""
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(json.dumps(tiny_model()).encode()))
    XGBoostModel().load(tmp_path / "m.json.gz")  # which imports what it needs
    tracemalloc.start()
    try:
        XGBoostModel().load(tmp_path / "m.json.gz")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
