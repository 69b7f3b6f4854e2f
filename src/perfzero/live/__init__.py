"""GPUs as they are now: one reading of all of them, and what shows it."""
