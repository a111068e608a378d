"""Fine-tuning: a pretrained encoder learns a task from labelled examples."""
