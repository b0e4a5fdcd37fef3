"""Coefficients of regions: stored, or computed from samples when asked for."""
