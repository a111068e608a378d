"""The Batch tab: what a training step is given, asked for, and predicts."""
