"""From batches to a trained model: losses and held-out numbers, optimizer, trainer, several processes."""
