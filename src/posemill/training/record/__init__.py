"""What a training writes while it runs: its folder, its checkpoints, its log."""
