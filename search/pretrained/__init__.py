"""Cost models that come with autosched, so that the first candidates are not blind guesses."""

from __future__ import annotations

from pathlib import Path

from autosched.features.sets import feature_set
from autosched.search.cost_model import CostModel, XGBoostModel


def pretrained_model(kind: str, features: str) -> Path | None:
    """The file for a `kind` of target (cpu, cuda) and a feature set; None when there is none.

    benchmarks/pretrain.py writes it, as UBJSON, which XGBoost reads in a tenth of the time of JSON
    (75 -> 7 ms).
    """
    path = Path(__file__).with_name(f"{kind}-{features}.ubj.gz")
    return path if path.is_file() else None


def start_pretrained(model: CostModel, kind: str, features: str) -> bool:
    """Load the model that comes with autosched, if there is one; returns whether it was loaded."""
    path = pretrained_model(kind, features)
    if path is None or not isinstance(model, XGBoostModel):
        return False
    chosen = feature_set(features)
    model.load(path, len(chosen.columns), chosen.schema, checked=False)
    return True
