"""Fields on output grids: where values are wanted, and how they are made."""
