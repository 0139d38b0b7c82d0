"""Running systems on protocols and printing tables."""
