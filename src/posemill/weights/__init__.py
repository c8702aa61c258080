"""Model files: found in published packages, pinned by sha256, pruned or converted, cached."""
