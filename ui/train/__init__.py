"""The Train tab: settings, curves and guesses, the batch of a step, runs side by side, experiments, saved runs."""
