"""The parameters of the search, by their Ansor names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Ansor's parameters; `evolutionary_search_population` is smaller than its 2048.

    Measured on three workloads, a population of 128 evolved for three generations finds kernels
    as good within 64 trials at a twentieth of the time (benchmarks/search_quality.py).
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
