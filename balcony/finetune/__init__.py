"""The Fine-tune tab: a model learns a task, answers, and shows its mistakes; and what its pre-training is worth."""
