"""Fits to observations: whatever is linear in the function, as rows of one least-squares system."""
