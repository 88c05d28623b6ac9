"""Numbers to terminal, HTML and notebook output."""
