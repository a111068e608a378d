"""Parts that tabs share: page frame, question, comparison, downloads, export, notes, figures, theme, scripts."""
