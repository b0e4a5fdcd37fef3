"""How good a field is: metrics, held-out scores, quality against width."""
