"""What fragments say about each other."""
