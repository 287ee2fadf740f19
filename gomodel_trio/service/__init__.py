"""The nursery tree: wiring, signals, logs."""
