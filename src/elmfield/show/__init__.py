"""A field to look at: rendered on grids, drawn as pictures."""
