"""Files other projects read and write, one module per format."""
