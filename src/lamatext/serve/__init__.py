"""HTTP server for saved models: JSON routes for predictions and explanations, and the web page."""
