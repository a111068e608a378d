"""One probe runs at a time: each would use every core, and they come from the server's many threads."""

import threading

probe_lock = threading.Lock()
