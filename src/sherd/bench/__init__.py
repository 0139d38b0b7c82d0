"""Benchmarks: protocols × systems, resumable, with the paper's figures beside ours."""
