"""Boards at speed: scoring, moves, growth and the evolutionary search, in numba."""
