"""Looking at runs: drawing, quality, reports."""
