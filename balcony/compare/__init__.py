"""The Compare tab: runs side by side, experiments."""
