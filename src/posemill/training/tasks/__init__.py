"""What is learned: classes, gloss sequences, or the user's own; losses, scorers, decoding."""
