"""From a recipe to a run, and the service that trains all runs in one background thread."""
