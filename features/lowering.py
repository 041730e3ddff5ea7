"""Features of candidates: steps in, rows out."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.driver import lower_for_features
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target
from features.extract import FeatureRows, features_from_func


def features_of_steps(dag: ComputeDAG, steps: Iterable[Step], target: Target) -> FeatureRows:
    """The log-scaled features (stored buffers, 164) of one candidate.

    Raises ScheduleError when the steps are illegal or, on a GPU, beyond the hardware's limits.
    """
    func = lower_for_features(dag, steps, target)
    return features_from_func(func, cache_line_bytes=target.hardware.cache_line_bytes)
