"""Why a text got its label: words with weights and contributions, shown, checked and counted."""
