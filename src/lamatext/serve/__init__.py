"""A model over HTTP, its page, and the page that needs no server."""
