// Outlier scores: how unlike the validation texts a text is, like lamatext.outliers.

export const OUTLIER = 0.99; // a score from which a text counts as an outlier
const NO_EVIDENCE = -1e6; // of a text without known words

/** κ times the largest g + n / 2 of a class, plus 1 − κ times the smallest b, for the logits n of the
 *  network, g of the n-gram model with the biases b, and the share κ of known words. */
export function evidenceOf(network, ngrams, base, known) {
  if (!(known > 0)) return NO_EVIDENCE;
  const best = Math.max(...Array.from(network, (n, c) => (ngrams ? ngrams[c] : 0) + n / 2));
  return known * best + (ngrams ? (1 - known) * Math.min(...base) : 0);
}

/** The share of validation texts with more evidence, given their quantiles; above 1 beyond the lowest,
 *  and 2 without any evidence. */
export function outlierScore(evidence, quantiles) {
  const last = quantiles.length - 1, lowest = quantiles[0];
  if (evidence < lowest && evidence <= NO_EVIDENCE) return 2;
  if (evidence < lowest) return 1 + (lowest - evidence) / Math.max(quantiles[last >> 1] - lowest, 1e-6);
  if (evidence >= quantiles[last]) return 0;
  let i = last - 1; // the last quantile that is not above the evidence
  while (quantiles[i] > evidence) i--;
  return 1 - (i + (evidence - quantiles[i]) / (quantiles[i + 1] - quantiles[i])) / last;
}
