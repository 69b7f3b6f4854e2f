"""The fixtures of the simulated libnvidia-ml, and of a watch with a puppet for a sampler."""

from puppet_sampler import stage
from simulated_nvml import board, library

__all__ = ["board", "library", "stage"]
