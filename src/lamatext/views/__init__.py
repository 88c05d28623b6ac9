"""Views: write numbers as terminal output, HTML pages, notebook output and reports."""
