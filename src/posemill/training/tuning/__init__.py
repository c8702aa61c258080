"""Settings by measurement: what a training waited for, and what makes it faster."""
