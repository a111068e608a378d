"""From batches to a trained model: losses, optimizer and trainer; evaluation, several processes, CUDA graphs."""
