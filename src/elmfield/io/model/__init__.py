"""The model file: written, read back, its promises kept."""
