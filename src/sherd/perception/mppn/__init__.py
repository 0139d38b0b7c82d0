"""MPPN: the multi-head puzzle perception network (encoder, pair heads, 2×2 head, border head)."""
