"""Compute the feature rows of candidates from their steps."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.driver import lower_for_features
from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import DEFAULT, Rows, feature_set
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target


def features_of_steps(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    name: str = DEFAULT,
    ansor_limits: bool = True,
) -> FeatureRows:
    """The rows (stored buffers, columns) of one candidate in feature set `name`.

    Raises ScheduleError when the steps are illegal or, on a GPU, beyond the hardware's limits.
    Shared memory is counted as Ansor counts it or, without `ansor_limits`, as code generation
    allocates it.
    """
    features = feature_set(name)
    func = lower_for_features(dag, steps, target, features.as_ansor, ansor_limits)
    return features.extract(func, target)


def rows_of_steps(
    dag: ComputeDAG,
    steps: Iterable[Step],
    target: Target,
    name: str,
    ansor_limits: bool = True,
) -> Rows:
    """The feature rows of one candidate with their buffers. Raises as `features_of_steps`."""
    features = feature_set(name)
    func = lower_for_features(dag, steps, target, features.as_ansor, ansor_limits)
    values, buffers = features.with_buffers(func, target)
    return Rows(values, tuple(buffers))
