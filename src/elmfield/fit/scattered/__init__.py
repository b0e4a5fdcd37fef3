"""Fits to scattered points."""
