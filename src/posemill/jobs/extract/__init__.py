"""A whole dataset to keypoints: plan, ledger, coordinator, workers, status."""
