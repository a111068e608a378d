"""HTML that needs no network: attention in a notebook, a run's report."""
