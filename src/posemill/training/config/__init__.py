"""Settings of a training: the fields, the presets, where each value came from."""
