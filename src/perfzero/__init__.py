"""Says why a GPU is slow, from outside the program that runs on it."""

__version__ = "0.1.0"
