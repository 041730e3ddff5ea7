"""Compare cost models and searches on recorded candidates, without measuring anything."""

from autosched.arena.contest import HELD_OUT, Settings, contest
from autosched.arena.models import contestant
from autosched.arena.pools import Pool, pools_of
from autosched.arena.results import Results
from autosched.arena.searches import Round, Search, searcher
from autosched.search.own_model import Estimator, Model

__all__ = [
    "HELD_OUT",
    "Estimator",
    "Model",
    "Pool",
    "Results",
    "Round",
    "Search",
    "Settings",
    "contest",
    "contestant",
    "pools_of",
    "searcher",
]
