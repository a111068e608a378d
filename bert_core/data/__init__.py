"""From the bytes of a text to batches: sentences, corpus, tokenizer, encoding, batches. Long texts stay on disk."""
