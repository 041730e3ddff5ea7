"""A tiny cost model in XGBoost's JSON format, without training."""

from __future__ import annotations

from typing import Any

_MEMBERS, _FEATURES = 8, 4


def tiny_model(rounds: int = 1) -> dict[str, Any]:
    """The JSON of `rounds` rounds of trees, each with one comparison and two leaves."""
    trees = [_tree(k) for k in range(rounds * _MEMBERS)]
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, _MEMBERS)),
        "tree_info": [k % _MEMBERS for k in range(len(trees))],
        "trees": trees,
    }
    return {
        "learner": {
            "attributes": {"feature_set": "x/1", "offset": "0.5"},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {"model": model, "name": "gbtree"},
            "learner_model_param": {
                "base_score": "5E-1",
                "boost_from_average": "1",
                "num_class": "0",
                "num_feature": str(_FEATURES),
                "num_target": str(_MEMBERS),
            },
            "objective": {
                "name": "reg:squarederror",
                "reg_loss_param": {"scale_pos_weight": "1"},
            },
        },
        "version": [3, 2, 0],
    }


def _tree(number: int) -> dict[str, Any]:
    empty = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    return {
        **{name: [] for name in empty},
        "base_weights": [0.0, 0.5, -0.5],
        "default_left": [0, 0, 0],
        "id": number,
        "left_children": [1, -1, -1],
        "loss_changes": [1.0, 0.0, 0.0],
        "parents": [2147483647, 0, 0],
        "right_children": [2, -1, -1],
        "split_conditions": [0.5, 0.1, -0.1],
        "split_indices": [number % _FEATURES, 0, 0],
        "split_type": [0, 0, 0],
        "sum_hessian": [2.0, 1.0, 1.0],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(_FEATURES),
            "num_nodes": "3",
            "size_leaf_vector": "1",
        },
    }
