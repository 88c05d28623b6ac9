"""One page that tells a model: data, scores, mistakes, words, and whether its reasons hold."""
