"""Other people's files: which room reads and writes which kind."""
