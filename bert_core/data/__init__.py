"""From the bytes of a text to batches: sentences, corpus, tokenizer, encoding, pairs, batches."""
