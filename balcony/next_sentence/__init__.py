"""The Next sentence tab."""
