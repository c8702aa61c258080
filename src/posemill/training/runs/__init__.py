"""The folder of a training: checkpoints, logs, figures, and the model put to use."""
