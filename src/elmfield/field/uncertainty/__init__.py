"""How sure a field is: standard deviations, covariances and draws from its posterior."""
