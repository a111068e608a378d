"""A class: one board, one lesson and one question for all pages, and the address that others join at."""
