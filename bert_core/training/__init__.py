"""From batches to a trained model: losses, optimizer, trainer; evaluation, several processes, CUDA graphs."""
