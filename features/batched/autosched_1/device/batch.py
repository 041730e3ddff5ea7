"""Compute rows of `autosched-1` for GPU candidates: many at once where possible."""

from __future__ import annotations

import numpy as np

from autosched.features.autosched_1.machine import machine_of
from autosched.features.batched.autosched_1.device.stores import device_pieces
from autosched.features.batched.autosched_1.piece import Ready
from autosched.features.batched.autosched_1.rows import prepared, rows_of_all
from autosched.features.batched.autosched_1.values import KnownChoices
from autosched.features.batched.batch import BatchedFeatures, Program
from autosched.features.batched.build_nest import build_nest
from autosched.features.batched.limits import with_wide_vectors
from autosched.features.batched.nest import Population
from autosched.features.batched.ops import ProgramOps
from autosched.features.batched.rows import PopulationRows
from autosched.features.batched.stores import make_stores
from autosched.features.batched.threads import check_kernels
from autosched.features.sets import AUTOSCHED_1
from autosched.state.dag import ComputeDAG
from autosched.target import Target

WORTH_AT_ONCE = 2  # the only candidate of a program is faster by itself


class BatchedDeviceFeatures(BatchedFeatures):
    """Rows of `autosched-1` for candidates of one DAG and GPU target; see `BatchedFeatures`."""

    _features = AUTOSCHED_1

    def __init__(self, dag: ComputeDAG, target: Target, ansor_limits: bool = True) -> None:
        super().__init__(dag, target, ansor_limits)
        self._least = WORTH_AT_ONCE
        self._choices = KnownChoices()

    def _rows(self, program: Program, ops: ProgramOps, population: Population) -> PopulationRows:
        assert self._limits is not None
        machine = machine_of(self._target)
        with np.errstate(all="ignore"):
            check_kernels(population.plan)
            nest = build_nest(ops, population)
            stores = make_stores(nest, as_ansor=False)
            refused = with_wide_vectors(nest, population.plan, stores, self._limits)
            made = Ready(nest, population, stores, [])
            pieces = device_pieces(made, population.plan)
        (rows,) = rows_of_all([prepared(made, pieces, machine, self._choices)], machine)
        rows.refused[:] = refused
        return rows
