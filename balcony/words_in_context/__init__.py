"""The Words in context tab."""
