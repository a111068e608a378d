"""What tabs share: page frame, Plotly view, comparison, downloads, notes, theme, figures, export."""
