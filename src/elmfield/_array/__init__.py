"""Plumbing: array libraries, memory, threads, caches, progress; nothing of the method."""
