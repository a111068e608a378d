"""The Masked words tab."""
