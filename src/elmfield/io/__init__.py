"""Files and containers of other libraries: read, fit, write, export; the model file and streams."""
