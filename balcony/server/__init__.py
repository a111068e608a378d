"""The server behind the page: visitors' workspaces, request guard, news of runs, endpoints for programs."""
