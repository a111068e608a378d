"""Where Gradio has no public way to what the page needs. Each gap has its reason, and tests/ui/test_gradio_gaps.py says
when it can go."""

import os

# Gradio reads them when it is imported: it sends nothing anywhere, and its queue keeps no statistics of 10,000 events.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")

# Gradio's document names its manifest by an address that is wrong where the app lies below a path of its host.
_MANIFEST = b'href="/manifest.json"', b'href="manifest.json"'


def finish_document(document: bytes, links: str) -> bytes:
    """Gradio's document with a manifest that is found, and with links in its head.

    What `launch(head=...)` is given comes into the page by a script, which the browser must have fetched before."""
    return document.replace(*_MANIFEST, 1).replace(b"</head>", links.encode() + b"</head>", 1)
