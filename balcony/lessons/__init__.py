"""Lessons, and the terms that the page explains."""
