"""Loaders, splits, the cutter, and puzzles on disk."""
