"""The fixtures of the simulated libnvidia-ml."""

from simulated_nvml import board, library

__all__ = ["board", "library"]
