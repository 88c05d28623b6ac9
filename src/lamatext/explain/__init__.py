"""Why a text got its label."""
