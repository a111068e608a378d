"""The Step by step tab."""
