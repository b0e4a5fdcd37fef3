"""Arrays to bytes and back: the codec, which knows nothing of fields or files."""
