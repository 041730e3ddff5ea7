"""The parameters of the search, by their Ansor names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Ansor's parameters under their own names.

    Populations are smaller than Ansor's (2048 evolved for 4 generations): a round then costs
    about as much as measuring its batch.
    """

    eps_greedy: float = 0.05
    retry_search_one_round_on_empty: int = 1
    sample_init_min_population: int = 50
    sample_init_use_measured_ratio: float = 0.2
    evolutionary_search_population: int = 128
    evolutionary_search_num_iters: int = 3
    evolutionary_search_mutation_prob: float = 0.85
    cpu_multi_level_tiling_structure: str = "SSRSRS"
    gpu_multi_level_tiling_structure: str = "SSSRRSRS"
    max_innermost_split_factor: int = 64
    max_vectorize_size: int = 16
    disable_change_compute_location: bool = False
