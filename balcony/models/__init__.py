"""The Models tab: choose the model that the page shows; keep, download and open models."""
