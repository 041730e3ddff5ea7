"""Check saved cost models: XGBoost trusts the files that it loads and crashes on odd ones.

XGBoost gets a text that is written anew from the checked values instead of the file: regression
trees as XGBoost 3 writes them as JSON (its documentation, "Model IO" and doc/model.schema), one
tree of each round for each member.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.measure.result import short

MOST_BYTES = 1 << 28
"""The largest size of a model, unpacked."""
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_ROOT = 2**31 - 1  # the parent that a root has
_DEEPEST = 64  # ours have a depth of 5
_MOST_FLOAT = 3.4e38  # about the largest float32
_MOST_LEAF = 1e3  # the logarithm of a relative time
_NUMBER = re.compile(r"[-+]?\d{1,20}(\.\d{0,20})?([eE][-+]?\d{1,4})?")
_INTS = ("default_left", "left_children", "right_children", "parents", "split_indices")
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_EMPTY = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


class ModelFileError(ValueError):
    """The file is no cost model of autosched; the message says which entry is wrong, and why."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_most(file: _Readable) -> bytes:
    """The content of a file, or its first MOST_BYTES + 1 bytes if it is larger, or endless.

    It is read in pieces: Python allocates the whole limit for a single read.
    """
    pieces: list[bytes] = []
    left = MOST_BYTES + 1
    while left and (piece := file.read(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def unpacked(raw: bytes) -> bytes:
    """`raw`, decompressed if it is gzip. Raises ModelFileError if it is damaged or too large."""
    data, verb = raw, "has"
    if raw[:2] == _GZIP:
        verb = "unpacks to"
        try:
            with gzip.open(io.BytesIO(raw)) as file:
                data = read_most(file)
        except (OSError, EOFError, zlib.error) as error:
            raise ModelFileError(str(error)) from error
    if len(data) > MOST_BYTES:
        raise ModelFileError(f"it {verb} more than {MOST_BYTES >> 20} MiB")
    return data


def checked_model(raw: bytes, members: int) -> bytes:
    """Check the content `raw` of a model file of `members` targets; return it as text for XGBoost.

    Raises ModelFileError that says which entry is wrong.
    """
    try:
        data = json.loads(unpacked(raw))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"it is not XGBoost's JSON ({error})") from None
    learner = _dict(data, "learner", "")
    param = _dict(learner, "learner_model_param", "learner.")
    where = "learner.learner_model_param"
    features = _count(param, "num_feature", where, 1 << 20)
    targets = _count(param, "num_target", where, 1 << 10)
    if targets != members:
        raise ModelFileError(f"{where}.num_target: expected {members}, found {targets}")
    objective = _dict(learner, "objective", "learner.").get("name")
    if objective != "reg:squarederror":
        raise ModelFileError(
            f"learner.objective.name: expected reg:squarederror, found {_short(objective)}"
        )
    attributes = _attributes(learner)
    trees = _trees(learner, features, members)
    number = len(trees)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(number)},
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "iteration_indptr": list(range(0, number + 1, members)),
        "tree_info": [k % members for k in range(number)],
        "trees": trees,
    }
    text = {
        "learner": {
            "attributes": attributes,
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {"model": model, "name": "gbtree"},
            "learner_model_param": {
                "base_score": _base_score(param, members),
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": str(features),
                "num_target": str(members),
            },
            "objective": {"name": objective, "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": _version(data),
    }
    return json.dumps(text).encode()


def _attributes(learner: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of the booster that autosched writes: `feature_set` and `offset`."""
    found = _dict(learner, "attributes", "learner.")
    own: dict[str, Any] = {k: found[k] for k in ("feature_set", "offset") if k in found}
    for name, value in own.items():
        if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
            raise ModelFileError(f"learner.attributes.{name}: expected text, found {_short(value)}")
    if "offset" in own:
        _number("learner.attributes.offset", own["offset"], _MOST_LEAF)
    return own


def _trees(learner: Mapping[str, Any], features: int, members: int) -> list[dict[str, Any]]:
    booster = _dict(learner, "gradient_booster", "learner.")
    where = "learner.gradient_booster"
    if booster.get("name") != "gbtree":
        raise ModelFileError(f"{where}.name: expected gbtree, found {_short(booster.get('name'))}")
    model = _dict(booster, "model", f"{where}.")
    trees = model.get("trees")
    where = f"{where}.model"
    if not isinstance(trees, list) or len(trees) % members:
        raise ModelFileError(f"{where}.trees: expected a list of {members} for each round")
    orders = {
        "tree_info": [k % members for k in range(len(trees))],
        "iteration_indptr": list(range(0, len(trees) + 1, members)),
    }
    for name, order in orders.items():
        if model.get(name) != order:
            raise ModelFileError(
                f"{where}.{name}: it is not that of {members} trees for each round"
            )
    return [_tree(tree, f"{where}.trees[{k}]", k, features) for k, tree in enumerate(trees)]


def _tree(tree: Any, where: str, number: int, features: int) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ModelFileError(f"{where}: expected an object, found {_short(tree)}")
    param = _dict(tree, "tree_param", f"{where}.")
    nodes = _count(param, "num_nodes", f"{where}.tree_param", 1 << 20)
    expected = {"num_deleted": (0,), "num_feature": (features,), "size_leaf_vector": (0, 1)}
    for name, values in expected.items():
        value = _count(param, name, f"{where}.tree_param", 1 << 20, least=0)
        if value not in values:
            raise ModelFileError(f"{where}.tree_param.{name}: expected {values[-1]}, found {value}")
    for name in (*_EMPTY, "split_type"):
        if any(_list(tree, name, where)):
            raise ModelFileError(f"{where}.{name}: it has categories, which no feature of ours has")
    ints = {name: _ints(_list(tree, name, where, nodes), f"{where}.{name}") for name in _INTS}
    floats = {name: _floats(_list(tree, name, where, nodes), f"{where}.{name}") for name in _FLOATS}
    _check_shape(ints, where, nodes, features)
    leaves = np.array(floats["split_conditions"])[ints["left_children"] == -1]
    if np.abs(leaves).max() > _MOST_LEAF:
        raise ModelFileError(f"{where}.split_conditions: a leaf of more than {_MOST_LEAF:g}")
    return {
        **{name: values.tolist() for name, values in ints.items()},
        **floats,
        **{name: [] for name in _EMPTY},
        "split_type": [0] * nodes,
        "id": number,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(nodes),
            "size_leaf_vector": "1",
        },
    }


def _check_shape(
    ints: Mapping[str, npt.NDArray[np.int64]], where: str, nodes: int, features: int
) -> None:
    """Raise ModelFileError unless nodes form a binary tree whose inner nodes compare features."""
    left, right, parents = (ints[k] for k in ("left_children", "right_children", "parents"))
    at = np.arange(nodes)
    inner = left != -1
    leaf_fits = (right == -1) == ~inner
    inner_fits = (left > at) & (right > at) & (left < nodes) & (right < nodes)
    children = np.concatenate([left[inner], right[inner]])
    if not (leaf_fits & (inner_fits | ~inner)).all() or not np.array_equal(
        np.sort(children), at[1:]
    ):
        raise ModelFileError(f"{where}: its nodes are no tree")
    owner = np.full(nodes, _ROOT)
    owner[left[inner]], owner[right[inner]] = at[inner], at[inner]
    if not np.array_equal(owner, parents):
        raise ModelFileError(f"{where}.parents: they are not those of its children")
    split, default = ints["split_indices"], ints["default_left"]
    if split.min() < 0 or (split[inner] >= features).any() or split.max() >= max(features, 1):
        raise ModelFileError(f"{where}.split_indices: expected 0 to {features - 1}")
    if not np.isin(default, (0, 1)).all():
        raise ModelFileError(f"{where}.default_left: expected 0 and 1")
    depth, level = 0, np.zeros(1, np.int64)
    while len(level):
        depth += 1
        level = level[inner[level]]
        level = np.concatenate([left[level], right[level]])
        if depth > _DEEPEST:
            raise ModelFileError(f"{where}: it is more than {_DEEPEST} levels deep")


def _dict(data: Any, key: str, where: str) -> dict[str, Any]:
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise ModelFileError(f"{where}{key}: expected an object, found {_short(found)}")
    return found


def _list(tree: Mapping[str, Any], key: str, where: str, length: int | None = None) -> list[Any]:
    found = tree.get(key)
    if not isinstance(found, list) or (length is not None and len(found) != length):
        of = "" if length is None else f" of {length} numbers"
        raise ModelFileError(f"{where}.{key}: expected a list{of}, found {_short(found)}")
    return found


def _ints(values: list[Any], where: str) -> npt.NDArray[np.int64]:
    if not all(type(v) is int and -1 <= v <= _ROOT for v in values):
        raise ModelFileError(f"{where}: expected integers of 32 bits")
    return np.array(values, np.int64)


def _floats(values: list[Any], where: str) -> list[float]:
    if not {int, float}.issuperset(map(type, values)) or not all(
        -_MOST_FLOAT < v < _MOST_FLOAT for v in values
    ):
        raise ModelFileError(f"{where}: expected finite numbers of 32 bits")
    return values


def _count(param: Mapping[str, Any], key: str, where: str, most: int, least: int = 1) -> int:
    """The integer that XGBoost writes as text under `key`; it must be from `least` to `most`."""
    text = param.get(key)
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,9}", text):
        raise ModelFileError(f"{where}.{key}: expected digits in quotes, found {_short(text)}")
    value = int(text)
    if not least <= value <= most:
        raise ModelFileError(f"{where}.{key}: expected {least} to {most}, found {value}")
    return value


def _number(where: str, text: Any, most: float = _MOST_FLOAT) -> None:
    """Raise ModelFileError unless `text` is the text of a number from -most to most."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text) or abs(float(text)) > most:
        raise ModelFileError(
            f"{where}: expected a number up to {most:g} in quotes, found {_short(text)}"
        )


def _base_score(param: Mapping[str, Any], members: int) -> str:
    """The text of `base_score`: one number, as before XGBoost 3.1, or one for each target."""
    where = "learner.learner_model_param.base_score"
    text = param.get("base_score")
    if not isinstance(text, str) or len(text) > 40 * members:
        raise ModelFileError(f"{where}: expected numbers in quotes, found {_short(text)}")
    inside = text[1:-1].split(",") if text[:1] + text[-1:] == "[]" else [text]
    if len(inside) not in (1, members):
        raise ModelFileError(f"{where}: expected 1 or {members} numbers, found {len(inside)}")
    for number in inside:
        _number(where, number)
    return text


def _version(data: Mapping[str, Any]) -> list[int]:
    found = data.get("version")
    if (
        not isinstance(found, list)
        or len(found) != 3
        or not all(type(n) is int and 0 <= n < 1000 for n in found)
    ):
        raise ModelFileError(f"version: expected three numbers, found {_short(found)}")
    return found


def _short(value: Any) -> str:
    return "object" if isinstance(value, dict) else short(value)
