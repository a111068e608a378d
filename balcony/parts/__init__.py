"""Parts that tabs share: controls, downloads, export, figures, maps, notes."""
