"""Boosted trees: XGBoost's library, called through its C interface.

Importing its Python package takes 0.2 s, most of it for SciPy, plots and scikit-learn; the library
itself is loaded in 10 ms. What is called here is documented in XGBoost's "C API Reference" (those
functions that are there since 3.0), and does what `xgboost.Booster` does.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_Size = ctypes.c_uint64
_LIBRARY = "libxgboost.so"
_VALUE, _MARGIN = 0, 1  # types of predictions


class TreesError(Exception):
    """What XGBoost says is wrong."""


class Rows:
    """Rows to learn from or to predict, and what is known of each.

    `labels` and `margins` (what the trees of all targets correct) have a line for each row.
    """

    def __init__(
        self,
        values: Array,
        *,
        labels: Array | None = None,
        margins: Array | None = None,
        threads: int = 1,
    ) -> None:
        self.handle = ctypes.c_void_p()
        missing = {"missing": float("nan"), "nthread": threads}
        made = ctypes.byref(self.handle)
        _call("XGDMatrixCreateFromDense", _interface(values), _json(missing), made)
        for name, known in (("label", labels), ("base_margin", margins)):
            if known is not None:
                _call(
                    "XGDMatrixSetInfoFromInterface", self.handle, name.encode(), _interface(known)
                )

    def __del__(self) -> None:
        if self.handle:
            _call("XGDMatrixFree", self.handle)


class Trees:
    """Trees with their parameters and attributes.

    What is asked for the `rows` that they are made with is remembered from call to call. With
    `begun` they go on from others. Raises TreesError.
    """

    def __init__(
        self, parameters: Mapping[str, Any], rows: Rows | None = None, begun: Trees | None = None
    ) -> None:
        self.handle = ctypes.c_void_p()
        known = [] if rows is None else [rows.handle]
        handles = (ctypes.c_void_p * len(known))(*known)
        _call("XGBoosterCreate", handles, _Size(len(known)), ctypes.byref(self.handle))
        if begun is not None:
            state = begun._bytes("XGBoosterSerializeToBuffer")
            _call("XGBoosterUnserializeFromBuffer", self.handle, state, _Size(len(state)))
        for name, value in parameters.items():
            _call("XGBoosterSetParam", self.handle, name.encode(), str(value).encode())

    def __del__(self) -> None:
        if self.handle:
            _call("XGBoosterFree", self.handle)

    def grow(self, rows: Rows, number: int) -> None:
        """The trees of round `number`, for the objective among the parameters."""
        _call("XGBoosterUpdateOneIter", self.handle, ctypes.c_int(number), rows.handle)

    def grow_along(self, rows: Rows, number: int, gradient: Array, hessian: Array) -> None:
        """The trees of round `number`, against a gradient: (rows, targets)."""
        derivatives = _interface(gradient), _interface(hessian)
        _call("XGBoosterTrainOneIter", self.handle, rows.handle, ctypes.c_int(number), *derivatives)

    def margins(self, rows: Rows) -> Floats:
        """What rows come to while they are learned from."""
        asked = _asked(_MARGIN, training=True)
        return self._predicted("XGBoosterPredictFromDMatrix", rows.handle, asked)

    def predict(self, rows: Rows) -> Floats:
        """(rows, targets), or (rows,) where there is one target or no row."""
        return self._predicted("XGBoosterPredictFromDMatrix", rows.handle, _asked(_VALUE))

    def predict_values(self, values: Array) -> Floats:
        """The same of rows of which nothing else is known. As wide as those that were learned."""
        asked = _asked(_VALUE, missing=float("nan"), cache_id=0)
        return self._predicted("XGBoosterPredictFromDense", _interface(values), asked, None)

    def _predicted(self, function: str, *args: Any) -> Floats:
        shape, dimensions = ctypes.POINTER(_Size)(), _Size()
        found = ctypes.POINTER(ctypes.c_float)()
        out = ctypes.byref(shape), ctypes.byref(dimensions), ctypes.byref(found)
        _call(function, self.handle, *args, *out)
        return _copied(found, shape[: dimensions.value])

    @property
    def columns(self) -> int:
        """How many columns the rows have that were learned."""
        found = _Size()
        _call("XGBoosterGetNumFeature", self.handle, ctypes.byref(found))
        return found.value

    def gains(self) -> dict[int, float]:
        """By how much splits by each column lowered the loss, over all trees; not those unused."""
        names, count = ctypes.POINTER(ctypes.c_char_p)(), _Size()
        shape, dimensions = ctypes.POINTER(_Size)(), _Size()
        scores = ctypes.POINTER(ctypes.c_float)()
        which = _json({"importance_type": "total_gain", "feature_map": ""})
        pointers = (count, names, dimensions, shape, scores)
        _call("XGBoosterFeatureScore", self.handle, which, *map(ctypes.byref, pointers))
        found = _copied(scores, shape[: dimensions.value])
        columns = [int(names[k].removeprefix(b"f")) for k in range(count.value)]
        return dict(zip(columns, map(float, found), strict=True))

    def note(self, **attributes: str | None) -> None:
        """Attributes that stay with the trees in their file; None takes one away."""
        for name, value in attributes.items():
            text = None if value is None else value.encode()
            _call("XGBoosterSetAttr", self.handle, name.encode(), text)

    def noted(self, name: str) -> str | None:
        """An attribute, or None when there is none."""
        found, success = ctypes.c_char_p(), ctypes.c_int()
        out = ctypes.byref(found), ctypes.byref(success)
        _call("XGBoosterGetAttr", self.handle, name.encode(), *out)
        return found.value.decode() if success.value and found.value is not None else None

    def saved(self) -> bytes:
        """XGBoost's JSON."""
        return self._bytes("XGBoosterSaveModelToBuffer", _json({"format": "json"}))

    def load(self, text: bytes) -> None:
        """Become the trees of XGBoost's JSON."""
        _call("XGBoosterLoadModelFromBuffer", self.handle, text, _Size(len(text)))

    def _bytes(self, function: str, *args: Any) -> bytes:
        length, start = _Size(), ctypes.c_void_p()
        _call(function, self.handle, *args, ctypes.byref(length), ctypes.byref(start))
        return ctypes.string_at(start, length.value)


def load_library() -> None:
    """Load XGBoost, which takes some milliseconds. Raises ImportError when it is not installed."""
    _library()


def version() -> str:
    """That of the library."""
    numbers = [ctypes.c_int() for _ in range(3)]
    _library().XGBoostVersion(*map(ctypes.byref, numbers))
    return ".".join(str(number.value) for number in numbers)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    found = find_spec("xgboost")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'xgboost'", name="xgboost")
    path = Path(found.origin).with_name("lib") / _LIBRARY
    if not path.exists():  # it knows of other places
        from xgboost.libpath import find_lib_path

        path = Path(find_lib_path()[0])
    library = ctypes.CDLL(str(path))
    library.XGBGetLastError.restype = ctypes.c_char_p
    return library


def _call(function: str, *args: Any) -> None:
    library = _library()
    if getattr(library, function)(*args):
        raise TreesError(library.XGBGetLastError().decode(errors="replace"))


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values).encode()


def _asked(kind: int, *, training: bool = False, **others: Any) -> bytes:
    every = {"iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
    return _json({"type": kind, "training": training, **every, **others})


def _interface(values: Array) -> bytes:
    """Where an array lies, as NumPy's array interface says it."""
    return _json(values.__array_interface__)


def _copied(found: Any, shape: Any) -> Floats:
    """What lies in the library's memory until the next call."""
    dimensions = tuple(map(int, shape))
    if 0 in dimensions:
        return np.zeros(0, np.float32)
    return np.ctypeslib.as_array(found, dimensions).copy()
