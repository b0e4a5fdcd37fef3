"""Evaluators: how a field answers at points and on grids."""
