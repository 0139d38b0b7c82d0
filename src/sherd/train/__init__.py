"""Training: recipes that run in minutes on one GPU, and resume."""
