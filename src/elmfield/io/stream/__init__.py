"""Arrays larger than memory: fitted slab by slab into a file, by one process or many."""

from elmfield.io.stream.fit_stream import fit_to

__all__ = ["fit_to"]
