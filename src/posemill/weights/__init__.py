"""Model files: found in published wheels, pinned by sha256, pruned or turned into ONNX, cached."""
