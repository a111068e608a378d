"""Models as folders: written all at once, read without trusting a byte, fetched from the Hub by name."""
