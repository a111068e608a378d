"""The tabs that show vectors: one word in several sentences, and one sentence from stage to stage."""
