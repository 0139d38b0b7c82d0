"""Pictures of boards, runs and results."""
