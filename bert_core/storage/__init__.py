"""Model folders: written all or nothing, read as untrusted files, downloaded from the Hub by name."""
