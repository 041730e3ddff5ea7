"""A fast stand-in for the cost model: predicts the score of a candidate from its numbers.

The features of a candidate take milliseconds, its numbers no time. Trained on the scores of the few
hundred candidates whose features are known, the surrogate chooses among thousands the candidates
whose features are worth computing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.needed import XGBOOST, needed
from autosched.search.population import Rows, Structures
from autosched.search.structure import traits

Scores = npt.NDArray[np.float32]
_PARAMS: dict[str, Any] = {
    "max_depth": 6,
    "eta": 0.2,
    "subsample": 0.8,
    "colsample_bynode": 0.5,
    "tree_method": "hist",
    "max_bin": 32,
    "nthread": 1,
    "seed": 0,
    "verbosity": 0,
}
_ROUNDS = 40
_ILLEGAL = 2.0  # by how much the logarithm of an illegal candidate's score is below all others


class Surrogate:
    """Predicts the logarithm of a score, once it is fitted."""

    def __init__(self, structures: Structures) -> None:
        self._structures = structures
        self._columns: dict[tuple[Any, ...], int] = {}
        self._traits: list[list[tuple[int, float]]] = []
        self._booster: Any = None
        self._seen = (0, 0)  # columns of traits and of numbers that it was fitted on
        self._tables: tuple[Any, ...] = ()  # key and tables of the last `_looked_up`

    @property
    def fitted(self) -> bool:
        """Whether the surrogate can predict."""
        return self._booster is not None

    def fit(self, rows: Rows, scores: Scores) -> None:
        """Learn from rows and their scores by the cost model; -inf for illegal ones."""
        xgboost = needed("xgboost", XGBOOST)

        legal = scores > 0
        if not legal.any():
            return
        target = np.log(np.maximum(scores, np.float32(1e-30)))
        target[~legal] = target[legal].min() - _ILLEGAL
        self._note_traits()
        self._seen = len(self._columns), rows.numbers.shape[1]
        matrix = xgboost.DMatrix(self._matrix(rows), label=target, nthread=1)
        self._booster = xgboost.Booster(_PARAMS, [matrix])
        for number in range(_ROUNDS):  # train() takes 5 ms more at its end
            self._booster.update(matrix, number)

    def predict(self, rows: Rows) -> Scores:
        """The predicted logarithm of the score of each row: (rows,)."""
        found: Scores = self._booster.inplace_predict(self._matrix(rows))
        return found.reshape(len(rows))  # without rows its shape is (0, 0) since XGBoost 3.4

    def _note_traits(self) -> None:
        for structure in self._structures.known[len(self._traits) :]:
            pairs = traits(structure).items()
            self._traits.append(
                [(self._columns.setdefault(k, len(self._columns)), v) for k, v in pairs]
            )

    def _matrix(self, rows: Rows) -> npt.NDArray[np.float32]:
        """The input: (rows, columns).

        The columns are the traits of the structure, the logarithms of the numbers, and of each
        level of a split the logarithm of its length times all lengths inside it.
        """
        table, ends = self._looked_up()
        width = self._seen[1]
        logs = np.log2(np.maximum(rows.padded(width).numbers[:, :width], 1)).astype(np.float32)
        sums = np.zeros((len(logs), width + 1), np.float32)  # each of a column and all after it
        np.cumsum(logs[:, ::-1], axis=1, out=sums[:, -2::-1])
        inside = sums[:, :-1] - np.take_along_axis(sums, ends[rows.structures], 1)
        return np.column_stack([table[rows.structures], logs, inside])

    def _looked_up(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The traits of each structure, (structures, traits) with NaN for missing, and `_ends`."""
        self._note_traits()
        made_for = len(self._traits), self._seen
        if not self._tables or self._tables[0] != made_for:
            traited, width = self._seen
            table = np.full((len(self._traits), traited), np.nan, np.float32)
            for number, pairs in enumerate(self._traits):
                for column, value in pairs:
                    if column < traited:
                        table[number, column] = value
            self._tables = made_for, table, self._ends(width)
        return self._tables[1], self._tables[2]

    def _ends(self, width: int) -> npt.NDArray[np.int64]:
        """The end column of the split that each column belongs to: (structures, width)."""
        known = self._structures.known
        ends = np.tile(np.arange(1, width + 1), (len(known), 1))
        for number, structure in enumerate(known):
            for split in structure.splits:
                ends[number, split.first : split.first + split.pieces] = split.first + split.pieces
        return np.minimum(ends, width)
