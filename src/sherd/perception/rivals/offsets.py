"""The 8 positions around a fragment, as Deepzzle numbers them."""

OFFSETS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
"""(row, column) of the positions, in the order of the network's classes."""
