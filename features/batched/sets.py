"""The extractors of many candidates' features at once, by feature set and target."""

from __future__ import annotations

from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.batched.autosched_1.device.batch import BatchedDeviceFeatures
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.sets import ANSOR
from autosched.state.dag import ComputeDAG
from autosched.target import Target


def batched_features(
    dag: ComputeDAG, target: Target, features: str, ansor_limits: bool = True
) -> BatchedFeatures:
    """The extractor of feature set `features` for candidates of one DAG and target.

    See `BatchedFeatures`.
    """
    if features == ANSOR:
        return BatchedFeatures(dag, target, ansor_limits)
    if target.is_gpu:
        return BatchedDeviceFeatures(dag, target, ansor_limits)
    return BatchedTuningFeatures(dag, target)
