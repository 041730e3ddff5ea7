"""The parameters of the search, by their Ansor names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from autosched import arguments

SpaceName = Literal["autosched", "ansor"]
OURS = "autosched"
"""The name of autosched's own search, as against a policy of the user."""

_SHARES = (
    "eps_greedy",
    "sample_init_use_measured_ratio",
    "evolutionary_search_mutation_prob",
)
_LEAST = {
    "retry_search_one_round_on_empty": 0,
    "sample_init_min_population": 1,
    "evolutionary_search_population": 1,
    "evolutionary_search_num_iters": 0,
    "max_innermost_split_factor": 1,
    "max_vectorize_size": 1,
}


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Ansor's parameters under their own names, with its defaults, and `space`.

    The space `ansor` has exactly the sketches of Ansor; `autosched` has more beside them.
    Raises ConfigError for a value of a wrong type or size.
    """

    space: SpaceName = "autosched"
    eps_greedy: float = 0.05
    retry_search_one_round_on_empty: int = 1
    sample_init_min_population: int = 50
    sample_init_use_measured_ratio: float = 0.2
    evolutionary_search_population: int = 2048
    evolutionary_search_num_iters: int = 4
    evolutionary_search_mutation_prob: float = 0.85
    cpu_multi_level_tiling_structure: str = "SSRSRS"
    gpu_multi_level_tiling_structure: str = "SSSRRSRS"
    max_innermost_split_factor: int = 64
    max_vectorize_size: int = 16
    disable_change_compute_location: bool = False

    def __post_init__(self) -> None:
        arguments.one_of("search.space", self.space, get_args(SpaceName))
        for name in _SHARES:
            arguments.number(f"search.{name}", getattr(self, name), 0, 1)
        for name, least in _LEAST.items():
            arguments.integer(f"search.{name}", getattr(self, name), least)
        for name in ("cpu_multi_level_tiling_structure", "gpu_multi_level_tiling_structure"):
            arguments.instance(f"search.{name}", getattr(self, name), str)
        name = "disable_change_compute_location"
        arguments.flag(f"search.{name}", self.disable_change_compute_location)


def policy_problem(text: str) -> str:
    """Why `text` names no policy; empty if it is `autosched` or `file.py:name`."""
    if text == OURS or ":" in text:
        return ""
    return f"expected {OURS} or file.py:name, found {text!r}"
