"""Tables of polynomials: values at lookup speed, with a certified error."""
