"""The Compare tab: runs side by side, experiments, the batch of a step."""
