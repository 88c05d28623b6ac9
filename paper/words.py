"""The sentences of ``results/README.md``; what is in braces is computed from the records.

What a sentence says beyond its figures, ``tests/reproduce/test_words.py`` asks of the records.
"""

QUICK = """
# A quick look

Made with `--quick`: few texts, few epochs, one seed. These figures show that the code runs, not
what the systems can do; without `--quick`, `lamatext reproduce all` computes the real ones.
"""

SECTIONS = (
    """
# The paper, computed again

Every table and figure of "Compact Multi-Head Self-Attention for Learning Supervised Text
Representations" (LAMA), from the records in this folder: `lamatext reproduce all --show` writes
this page from them, `lamatext reproduce NAME` computes what has no record yet. A dash is a figure
that has no record; a number in brackets after an accuracy is how many seeds it has, where that is
not three.
""",
    """
## What the comparison shows

**Beside the published figures.** Like for like are `r8` and `imdb`; `news` has headlines where the
paper had articles, and the clothing reviews stand in for Yelp's. On these two the seed that is best
on validation, less the published figure, in points of accuracy, is

{against-paper}

So the proposed model comes out as published on IMDB and a little lower on R8, while SAN, BiGRU and
TE come out higher than published on both, and AVG by far on R8. Its distance from the mean of SAN,
BiGRU, CNN, TE and AVG shrinks: on R8 to {margin[r8]} points, on IMDB to {margin[imdb]}.

**LAMA+ctx beside each other system.** By the paired intervals below, over all seven sets, it is
beside

- LAMA: {told[lama]} ({said[lama]});
- SAN: {told[san]} ({said[san]});
- BiGRU: {told[bigru]} ({said[bigru]});
- CNN: {told[cnn]} ({said[cnn]});
- TE: {told[te]} ({said[te]});
- AVG: {told[avg]} ({said[avg]});
- itself with D_p: {told[lama-ctx-dp]} ({said[lama-ctx-dp]});
- itself with D_e: {told[lama-ctx-de]} ({said[lama-ctx-de]});
- fine-tuned MiniLM: {told[bert]} ({said[bert]}, there beside BERT);
- TF-IDF + SVC, which the paper does not have: {told[tfidf-svc]}.

**Where a baseline is stronger than published.** The mean of word vectors on R8: {best[avg,r8]}
here, {paper[avg,r8]} in the paper. It gets the same classifier, vectors and patience as LAMA; what
the published one was given is not stated. Started from random vectors instead of word2vec's it
reaches {probe[AVG on r8 from random vectors]}: of the {gap[avg,r8]} points between the two figures
the start accounts for {lost[AVG on r8 from random vectors]}, and the rest remains unexplained.
TE on R8: {ours[te,r8]} here, {paper[te,r8]} in the paper, and {ours[te,imdb]} against
{paper[te,imdb]} on IMDB. Its recipe limits the norm of the gradient to 1, which the paper does not
mention, and takes the mean over the words; which of these the published one lacked is not known,
and no run without the limit is recorded here. The paper has LE above TE on both sets; here TE is
above LE on {above[te,lama-encoder]}. BiGRU (R8 {ours[bigru,r8]}, published {paper[bigru,r8]}) and
SAN (R8 {ours[san,r8]}, published {paper[san,r8]}; IMDB {ours[san,imdb]}, {paper[san,imdb]}) are
stronger too.

**SAN and its penalty.** In cross-validation SAN falls with every head added on {falls[san]}, so its
chosen number is one. On R8 that is the doing of its penalty, whose coefficient of 1 is our choice:
in one seed each, 15 heads reach {probe[SAN on r8, m = 15]} with it and
{probe[SAN on r8, m = 15, no penalty]} without, one head {first[san,r8]}. On the sets without
cross-validation SAN has 15 heads and the penalty, and is at {ours[san,news]} on `news` and
{ours[san,mr]} on `mr`, where the penalty is a part of the reason; on `news` that was not tried.

**The disagreement terms** cost us little: D_e on R8 {ours[lama-ctx-de,r8]}, published
{paper[lama-ctx-de,r8]}; on IMDB {ours[lama-ctx-de,imdb]}, published {paper[lama-ctx-de,imdb]}. We
take their mean over a minibatch where the paper writes a sum; whether that is the reason was not
tried.

**Where little is learnt.** On `mr`, which the paper does not have, all that is trained by this
protocol ends below every linear model of the table. {chance[mr]} stay at chance: over all seeds and
epochs their best validation accuracies are {valid[san,mr]} and {valid[lama-encoder,mr]}, and
patience ends them. The halving of the rate is not the reason for LE and AVG: at a constant rate
they reach {probe[LE on mr, constant rate]} and {probe[AVG on mr, constant rate]}, halved
{first[lama-encoder,mr]} and {first[avg,mr]}. LAMA+ctx does gain by a constant rate
({first[lama-ctx,mr]} to {probe[LAMA+ctx on mr, constant rate]}). The reason is the start: `mr` has
the fewest words of all the sets to train word2vec on, and from random vectors AVG reaches
{probe[AVG on mr from random vectors]}, LE {probe[LE on mr from random vectors]} and LAMA+ctx
{probe[LAMA+ctx on mr from random vectors]}, which is what TE has ({ours[te,mr]} on average), the
one system that always starts from random vectors. SAN gains without its penalty too
({first[san,mr]} to {probe[SAN on mr, no penalty]}). One seed each.

**What was tried to explain all this.** One seed each, on test:

{probes}

SAN in the main table has one head on R8.

**What a user would pick instead.** Mean accuracy on test:

{picks}

MiniLM is all-MiniLM-L6-v2, a small pretrained Transformer, fine-tuned at its own usual settings
({minilm}), not by the paper's recipe for BERT; one seed on `imdb`. It is the most accurate of this
page on every set. Without pretraining, a linear model on TF-IDF or fastText is above all of the
paper's systems on {linear}. lamatext's own default recipe is not the paper's:
[leaderboard.md](leaderboard.md).

**How sure this is.** The intervals are over test texts with the seeds' hits averaged. They do not
hold the luck of the seed, which is the larger part where the spread is ngrams. {repeats} Another
device, other versions or word vectors made elsewhere give other figures, as another seed would.
""",
    """
## Accuracy

Mean ± standard deviation on test over three seeds. TF-IDF and fastText were trained once.

{accuracy}

The seed that is best on validation, beside the published figure. `news` has headlines where the
paper had articles, and the clothing reviews stand in for Yelp's: these columns are not like for
like. The last figures of the MiniLM row are those of bert-base.

{beside}

LAMA+ctx less each other system in points of accuracy: paired bootstrap over the test texts, the
middle 95 %; bold where it does not hold zero.

{intervals}
""",
    """
## How many heads

Three folds of the training set choose the number of heads of LAMA+ctx and SAN on three sets (bold);
elsewhere, and in LAMA and with the disagreement terms everywhere, it is 15.

{heads}

{figure-heads}

Mean and spread of LAMA+ctx over the folds, up to the last epoch that all folds reached. The paper
sees its peak at 15 on IMDB and Yelp-L; here LAMA+ctx is best with {heads-of[lama-ctx,imdb]} on
`imdb`, {heads-of[lama-ctx,clothing-long]} on `clothing-long` and {heads-of[lama-ctx,r8]} on `r8`,
and from 5 to 20 heads the means differ by {many[lama-ctx]} points at most. With one head it is
worst on {worst[lama-ctx]}; the next section says why.
""",
    """
## What each choice is worth

LAMA+ctx with one choice changed at a time, and what the change adds: paired bootstrap over the test
texts as above, bold where the interval does not hold zero.

{ablation}

With one head the l2 step leaves only the sign of the score, whose gradient is zero: the attention
cannot learn. That is {shift[one head,r8]} points on R8 and {shift[one head,clothing-long]} on
`clothing-long`; without l2 one head is at {shift[one head without l2,r8]} and
{shift[one head without l2,clothing-long]}. So most of the gap between one head and many is that
step. Of the changes at 15 heads the interval does not hold zero for {moved[r8]} on R8 and for
{moved[clothing-long]} on `clothing-long`. The same way in every seed of both sets go: {steady}. So
scoring uₜ and not hₜ is worth something, if under a point. Leaving out tanh alone gives
{shift[without tanh,r8]} and {shift[without tanh,clothing-long]}, leaving out both tanh and l2
{shift[without tanh and l2,r8]} and {shift[without tanh and l2,clothing-long]}. No change of l2,
tanh, rank or temperature brings a gain that these texts could tell from luck.
""",
    """
## Parameters

At the sizes of the paper's table (GRU 512 a direction, d_model 512, classifier 1024; our IMDB
vocabulary), by component, and the total of our recipe (GRU 50, classifier 512).

{parameters}

The published factor between TE and LAMA is {measure[factor]} at m = 2, a difference of
{measure[gap]}. It is the embedding: 512 ngrams in TE ({measure[te embedding]}) and 100 ngrams in LAMA
({measure[lama embedding]}), a difference of {measure[embedding gap]} with our vocabulary. What
remains without it is {measure[te rest]} in TE and {measure[lama rest]} in LAMA, which is then the
larger; without the classifier as well, {measure[te core]} and {measure[lama core]}.

The published totals of LAMA grow by {measure[published a head]} parameters a head. Our attention
layer alone grows by {measure[attention a head]}, and the classifier's first layer, whose input is
the flattened m × 2h embedding, by {measure[classifier a head]}: the published totals cannot hold
it. Counted, it outgrows all else, and LAMA at these sizes is smaller than TE for
{measure[smaller]}. At our recipe's sizes it is smaller for {measure[smaller here]}.

{figure-params-vs-accuracy}

Each system with the parameters it has on that set; the line is a linear model on TF-IDF.
""",
    """
## Complexity and time

The exponent with which one attention layer's operations (in brackets: its measured time on one CPU
thread) grow, forward and backward, between the two largest sizes of each sweep.

{complexity}

LAMA is linear in n, as the paper says, and TE's self-attention nearly quadratic at n = 2048. The
O(n·m·h) of the paper leaves out uₜ = tanh(W hₜ + b), which costs n·d²: {measure[projection]} of the
layer's operations at n = 256, m = 16, d = 128. Scoring hₜ itself, the growth is the formula's.

{runtime}

{figure-runtime}

Mean and spread of three passes. An epoch of TE takes {measure[slower]} times as long as one of LE:
that TE is the more expensive, as the paper says, holds at every length. From 50 to 250 words the
time grows {measure[le longer]} times for LE (`r8` and `imdb`) and {measure[te longer]} times for
TE: at 32 texts a batch this GPU is not filled, so that the growth of the table above does not show.
Word vectors were being trained on the same machine's other cores during these passes, so the times
are upper bounds.
""",
    """
## What the attention looks at

The words with the highest mean weight (over heads and occurrences) in the test texts of a class,
among words that occur ten times or more. The paper's lists of 1 and 5 stars are of Yelp.

{keywords}

Under the paper's scores no word can get more than e² ≈ 7.4 times the weight of another in its text,
and most get about the same. The last column is a network whose scores have a learned temperature,
which lifts that bound.

{figure-word-weights}

Each dot is one occurrence in a test review of `clothing` under the paper's scores: its weight, the
mean over heads, as a multiple of the mean of its text. From five on, a box holds the middle half
and a line the median. These weights are {span} times the mean; with a temperature those of the same
words are {span-sharp} times the mean.

{weights}

The paper sees the weight of positive words rise with the stars and that of negative words fall. In
these reviews, which have few negative words, that holds surely for {shifted[as]}, the opposite for
{shifted[against]}; {shifted[open]} cannot be told, or occur fewer than five times on one side.
""",
    """
## Data

Ours, and in brackets the published figures. Words are spaCy's, punctuation included.

{datasets}
""",
    """
## Protocol, and where it departs from the paper

spaCy's blank English tokenizer, lower case, words under 5 occurrences dropped, word2vec of size 100
on the training part alone, GRU 50, classifier 512, dropout 0.4, batches of 32, SGD 0.05 with
momentum 0.9 and weight decay 1e-4, the rate halved when validation stalls, patience 5, at most 50
epochs. Three seeds, each on another 90 % of the training set, each scored once on test; the heads
of LAMA+ctx and SAN on r8, imdb and clothing-long by 3-fold cross-validation, where a fold's
held-out part also stops its runs. Remarks stand in the recipes (`src/lamatext/recipes/`). Also: the
gradient of TE is limited; its matrix products and MiniLM's are in TF32 on a GPU that has it (their
records say so), and it reads 512 words at most; on a GPU the GRU is our own kernel
(`lamatext/kernels/gru_cuda.cu`); TF-IDF and fastText train on the whole training set. A record's
`commit` is the tree its run was started from, which may have had uncommitted changes beside it;
those of `53cef80` had.
""",
)
