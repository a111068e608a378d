"""The Train tab: settings, curves and guesses."""
