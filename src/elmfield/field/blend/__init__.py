"""Local models blended into one function: points, grids, derivatives, integrals."""
