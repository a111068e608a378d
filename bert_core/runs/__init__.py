"""A recipe, the run that it becomes, and the service that trains all runs in one background thread."""
