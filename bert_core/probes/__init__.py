"""Probes of a finished model: masked words, sentence pairs, attention, vectors, the exam."""
