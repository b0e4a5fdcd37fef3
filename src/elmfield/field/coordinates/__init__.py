"""What callers say and read back: coordinates, dates, names, gaps, output positions."""
