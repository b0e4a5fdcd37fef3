"""Meeting an error or a size: coding samples, dropping modes."""
