"""Arrays larger than memory: fitted slab by slab into a file, by one process or many."""
