"""Starting a training: the modes, the probe, sweeps, advice."""
