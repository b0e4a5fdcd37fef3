"""How the tables of the package were made."""
