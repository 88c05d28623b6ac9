"""Views: results as terminal output, HTML pages, notebook output and reports."""
