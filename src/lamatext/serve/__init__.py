"""The HTTP server and the page."""
