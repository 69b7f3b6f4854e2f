"""Watching: windows, processes, cost. Everything measured goes into a Recording."""
