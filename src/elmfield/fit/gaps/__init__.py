"""Filling missing samples, in memory and window by window."""
