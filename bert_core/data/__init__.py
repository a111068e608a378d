"""From bytes to batches: sentences, corpus, tokenizer, encoding, batches; long texts in arrays on disk."""
