/* The network in vectors of LANES floats; vector_network.c includes this file once per vector size.
 *
 *     r = σ(W_ir x + b_ir + W_hr s + b_hr)      v = W_hn s + b_hn
 *     z = σ(W_iz x + b_iz + W_hz s + b_hz)      n = tanh(W_in x + b_in + r v)
 *     s ← n + z (s − n)                         h_t: the states s of both directions
 *
 *     u_t = tanh(W h_t + b)     f_ti = (p_i·c)(q_i·u_t)     A = softmax(τ l2(tanh(f)))     S = A H
 *
 * Hidden units are processed in groups of LANES: a vector holds one gate of them, a trio their three
 * gates r, z and n. Every sum is accumulated in registers, one term after the other, so that a text
 * has the same states and logits alone and in a batch.
 */

#define INLINED static inline __attribute__((always_inline)) FAST
#define TRIO (3 * LANES)
#define TRIOS 4     /* trios of a single text that are updated at once */
#define COLUMNS 8   /* vectors of a single row that are computed at once */
#define BLOCK 24    /* words whose intermediate results stay in the L1 cache */
#define WORDS 16384 /* words of the texts that are computed together */
#define vector NAME(vector)

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINED vector *NAME(at)(const float *place) { return (vector *)place; }
#define at NAME(at)

/* ---- Dense layers ---- */

/* Compute some vectors of W x + b for some rows x. */
INLINED void NAME(multiply_tile)(const dense *d, int64_t first, const float *x, int64_t stride,
                                 float *out, int64_t width, const int rows, const int columns) {
    const float *weight = d->weights + first * d->inputs * LANES;
    vector sum[ROWS > COLUMNS ? ROWS : COLUMNS][COLUMNS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum[i][j] = *at(d->biases + (first + j) * LANES);
    for (int64_t k = 0; k < d->inputs; k++, weight += LANES)
        for (int j = 0; j < columns; j++) {
            vector w = *at(weight + j * d->inputs * LANES);
            for (int i = 0; i < rows; i++)
                sum[i][j] += x[i * stride + k] * w;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            *at(out + i * width + (first + j) * LANES) = sum[i][j];
}

/* Compute all vectors of W x + b for some rows x, `columns` vectors at once. */
INLINED void NAME(multiply_strip)(const dense *d, const float *x, int64_t stride, float *out,
                                  int64_t width, const int rows, const int columns) {
    int64_t first = 0;
    for (; first + columns <= d->vectors; first += columns)
        NAME(multiply_tile)(d, first, x, stride, out, width, rows, columns);
    for (; first < d->vectors; first++)
        NAME(multiply_tile)(d, first, x, stride, out, width, rows, 1);
}

/* Compute W x + b of rows x, `stride` floats apart, into rows of out, `width` floats apart. */
FAST static void NAME(multiply_rows)(const dense *d, const float *x, int64_t stride, int64_t count,
                                     float *out, int64_t width) {
    int64_t i = 0, whole = count / ROWS * ROWS, first = 0;
    for (; first + 2 <= d->vectors; first += 2) /* these weights stay in the L1 cache */
        for (i = 0; i < whole; i += ROWS)
            NAME(multiply_tile)(d, first, x + i * stride, stride, out + i * width, width, ROWS, 2);
    for (; first < d->vectors; first++)
        for (i = 0; i < whole; i += ROWS)
            NAME(multiply_tile)(d, first, x + i * stride, stride, out + i * width, width, ROWS, 1);
    for (i = whole; i + 4 <= count; i += 4)
        NAME(multiply_strip)(d, x + i * stride, stride, out + i * width, width, 4, 2);
    for (; i < count; i++)
        NAME(multiply_strip)(d, x + i * stride, stride, out + i * width, width, 1, COLUMNS);
}

/* ---- Activations ---- */

/* tanh as a quotient of polynomials, as in Eigen and ONNX Runtime; exact to the last few bits. */
INLINED float NAME(tanh_of)(float x) {
    x = x > 9.0f ? 9.0f : x;
    x = x < -9.0f ? -9.0f : x;
    float s = x * x, p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;
    p = p * s + 2.00018790482477e-13f;
    p = p * s - 8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    q = q * s + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    return x * p / q;
}

INLINED float NAME(sigmoid)(float x) { return 0.5f + 0.5f * NAME(tanh_of)(0.5f * x); }

/* e^x for x ≤ 0: 2^n e^r with |r| ≤ ln 2 / 2, e^r as the polynomial of Cephes. */
INLINED float NAME(exp_of)(float x) {
    x = x < -87.0f ? -87.0f : x;
    float n = x * 1.44269504088896341f + 12582912.0f; /* adding 1.5 · 2²³ rounds to an integer */
    union { float value; uint32_t bits; } shifted = {n}, power;
    n -= 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f, y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    power.bits = (shifted.bits - 0x4b400000u + 127) << 23;
    return (y * r * r + r + 1.0f) * power.value;
}

/* ---- GRU ---- */

/* Update the states of one trio, given W_i x + b (3, L) of its word and W_h s + b_h. */
INLINED void NAME(update)(const float *x, const float *u, const float *old, float *new) {
    for (int j = 0; j < LANES; j++) {
        float r = NAME(sigmoid)(x[j] + u[j]), z = NAME(sigmoid)(x[LANES + j] + u[LANES + j]);
        float n = NAME(tanh_of)(x[2 * LANES + j] + r * u[2 * LANES + j]);
        new[j] = n + z * (old[j] - n);
    }
}

/* Update the states of some trios of one text by one word; `gates` is its W_i x + b, `old` (N, L)
 * the states before it. */
INLINED void NAME(step)(const network *n, int64_t way, int64_t first, const float *gates,
                        const float *old, float *new, const int trios) {
    int64_t h = n->units, trio = way * n->trios + first;
    const float *weight = n->state_weights + trio * h * TRIO;
    vector sum[TRIOS][3];
    float share[TRIOS * TRIO];
    for (int i = 0; i < trios; i++)
        for (int gate = 0; gate < 3; gate++)
            sum[i][gate] = *at(n->state_biases + (trio + i) * TRIO + gate * LANES);
    for (int64_t k = 0; k < h; k++)
        for (int i = 0; i < trios; i++)
            for (int gate = 0; gate < 3; gate++)
                sum[i][gate] += old[k] * *at(weight + (i * h + k) * TRIO + gate * LANES);
    for (int i = 0; i < trios; i++)
        for (int gate = 0; gate < 3; gate++)
            *at(share + i * TRIO + gate * LANES) = sum[i][gate];
    for (int i = 0; i < trios; i++)
        NAME(update)(gates + (first + i) * TRIO, share + i * TRIO, old + (first + i) * LANES,
                     new + (first + i) * LANES);
}

/* Update all states of one text by one word.
 *
 * The weights do not fit into the L1 cache, so the direction alternates: each step starts with the
 * weights that the previous one used last. step() is inlined with a constant number of trios.
 */
INLINED void NAME(step_one)(const network *n, int64_t way, int64_t turn, const float *gates,
                            const float *old, float *new) {
    int64_t groups = (n->trios + TRIOS - 1) / TRIOS;
    for (int64_t i = 0; i < groups; i++) {
        int64_t first = TRIOS * (turn % 2 ? groups - 1 - i : i);
        switch (n->trios - first) {
        case 1: NAME(step)(n, way, first, gates, old, new, 1); break;
        case 2: NAME(step)(n, way, first, gates, old, new, 2); break;
        case 3: NAME(step)(n, way, first, gates, old, new, 3); break;
        default: NAME(step)(n, way, first, gates, old, new, TRIOS);
        }
    }
}

/* Update all states of several texts by one word each: every weight is loaded once for all texts.
 * The sums are those of step(), in the same order. `shares` is (texts, N, 3, L). */
INLINED void NAME(step_texts)(const network *n, int64_t way, const float *const *gates,
                              const float *const *old, float *const *new, float *shares,
                              const int texts) {
    int64_t h = n->units, size = n->trios * TRIO;
    for (int64_t trio = 0; trio < n->trios; trio++) {
        const float *weight = n->state_weights + (way * n->trios + trio) * h * TRIO;
        const float *bias = n->state_biases + (way * n->trios + trio) * TRIO;
        vector sum[TEXTS][3];
        for (int i = 0; i < texts; i++)
            for (int gate = 0; gate < 3; gate++)
                sum[i][gate] = *at(bias + gate * LANES);
        for (int64_t k = 0; k < h; k++, weight += TRIO) {
            vector r = *at(weight), z = *at(weight + LANES), m = *at(weight + 2 * LANES);
            for (int i = 0; i < texts; i++) {
                sum[i][0] += old[i][k] * r;
                sum[i][1] += old[i][k] * z;
                sum[i][2] += old[i][k] * m;
            }
        }
        for (int i = 0; i < texts; i++)
            for (int gate = 0; gate < 3; gate++)
                *at(shares + i * size + trio * TRIO + gate * LANES) = sum[i][gate];
    }
    for (int i = 0; i < texts; i++)
        for (int64_t trio = 0; trio < n->trios; trio++)
            NAME(update)(gates[i] + trio * TRIO, shares + i * size + trio * TRIO,
                         old[i] + trio * LANES, new[i] + trio * LANES);
}

/* Up to TEXTS texts of a batch that are computed together, one after the other without padding. */
typedef struct {
    int64_t first, texts, words; /* the first text, and the words of all */
    int64_t length[TEXTS], start[TEXTS];
    const float **gates; /* (words,): the row of gate inputs (2, N, 3, L) of each word */
    float *rare;         /* (words, 2, N, 3, L): those of words that are not in n->gates */
    float *states;       /* (words, D) */
    float *scores;       /* (words, M), M padded to L */
    float *embedding;    /* (texts, M, D) */
    float *room;         /* scratch memory: see run_batch */
} NAME(group);
#define group NAME(group)

INLINED void NAME(embed)(const network *n, int64_t id, float *x) {
    int64_t width = n->input.inputs;
    if (n->bytes == NULL)
        memcpy(x, n->floats + id * width, width * sizeof(float));
    else
        for (int64_t k = 0; k < width; k++)
            x[k] = n->bytes[id * width + k] * n->scales[id];
}

/* Find or compute W_i x + b of every word of the group. */
FAST static void NAME(prepare_gates)(const network *n, const batch *b, group *g) {
    int64_t row = n->input.vectors * LANES, width = n->input.inputs, rare = 0, word = 0;
    for (int64_t i = 0; i < g->texts; i++)
        for (int64_t k = 0; k < g->length[i]; k++, word++) {
            int64_t id = ids_of(b, g->first + i)[k];
            if (id < n->known) {
                g->gates[word] = n->gates + id * row;
                continue;
            }
            NAME(embed)(n, id, g->room + rare % BLOCK * width);
            g->gates[word] = g->rare + rare++ * row;
            if (rare % BLOCK == 0)
                NAME(multiply_rows)(&n->input, g->room, width, BLOCK,
                                    g->rare + (rare - BLOCK) * row, row);
        }
    int64_t last = rare % BLOCK;
    NAME(multiply_rows)(&n->input, g->room, width, last, g->rare + (rare - last) * row, row);
}

INLINED int64_t NAME(word_at)(const group *g, int64_t way, int64_t text, int64_t turn) {
    return g->start[text] + (way ? g->length[text] - 1 - turn : turn);
}

INLINED void NAME(keep_states)(const network *n, group *g, int64_t way, int64_t word,
                               const float *states) {
    memcpy(g->states + (2 * word + way) * n->units, states, n->units * sizeof(float));
}

/* Run one direction over the words of some texts, step by step as long as all of them have words,
 * then over the rest of each text. */
INLINED void NAME(walk)(const network *n, group *g, int64_t way, const int texts) {
    int64_t size = n->trios * LANES, common = g->length[0], turn = 0;
    const float *gates[TEXTS], *old[TEXTS];
    float *new[TEXTS], *room = g->room, *shares = room + 2 * TEXTS * size;
    for (int i = 1; i < texts; i++)
        common = g->length[i] < common ? g->length[i] : common;
    memset(room, 0, 2 * texts * size * sizeof(float)); /* (texts, 2, N, L): before and after a word */
    for (; texts > 1 && turn < common; turn++) {
        for (int i = 0; i < texts; i++) {
            gates[i] = g->gates[NAME(word_at)(g, way, i, turn)] + way * n->trios * TRIO;
            old[i] = room + (2 * i + turn % 2) * size;
            new[i] = room + (2 * i + 1 - turn % 2) * size;
        }
        NAME(step_texts)(n, way, gates, old, new, shares, texts);
        for (int i = 0; i < texts; i++)
            NAME(keep_states)(n, g, way, NAME(word_at)(g, way, i, turn), new[i]);
    }
    for (int i = 0; i < texts; i++)
        for (int64_t rest = turn; rest < g->length[i]; rest++) {
            int64_t word = NAME(word_at)(g, way, i, rest);
            float *after = room + (2 * i + 1 - rest % 2) * size;
            NAME(step_one)(n, way, rest, g->gates[word] + way * n->trios * TRIO,
                           room + (2 * i + rest % 2) * size, after);
            NAME(keep_states)(n, g, way, word, after);
        }
}

FAST static void NAME(walk_group)(const network *n, group *g) {
    for (int64_t way = 0; way < 2; way++)
        switch (g->texts) { /* inlined with a constant number of texts */
        case 1: NAME(walk)(n, g, way, 1); break;
        case 2: NAME(walk)(n, g, way, 2); break;
        case 3: NAME(walk)(n, g, way, 3); break;
        case 4: NAME(walk)(n, g, way, 4); break;
#if TEXTS > 4
        case 5: NAME(walk)(n, g, way, 5); break;
        case 6: NAME(walk)(n, g, way, 6); break;
        case 7: NAME(walk)(n, g, way, 7); break;
        case 8: NAME(walk)(n, g, way, 8); break;
#endif
        }
}

/* ---- Attention ---- */

/* Compute the keys q_i·u of all words of the group, into g->scores. */
FAST static void NAME(score_keys)(const network *n, group *g) {
    int64_t width = 2 * n->units, heads = n->q.vectors * LANES, inner = n->project.vectors * LANES;
    for (int64_t word = 0; word < g->words; word += BLOCK) {
        int64_t count = g->words - word < BLOCK ? g->words - word : BLOCK;
        const float *states = g->states + word * width;
        float *scores = g->scores + word * heads;
        if (inner == 0) {
            NAME(multiply_rows)(&n->q, states, width, count, scores, heads);
            continue;
        }
        NAME(multiply_rows)(&n->project, states, width, count, g->room, inner);
        for (int64_t j = 0; j < count * inner; j += LANES)
            for (int i = 0; i < LANES; i++)
                g->room[j + i] = NAME(tanh_of)(g->room[j + i]);
        NAME(multiply_rows)(&n->q, g->room, inner, count, scores, heads);
    }
}

/* Compute p_i·c of one text, c the learned context or the mean of the word vectors; returns it. */
FAST static const float *NAME(query)(const network *n, const batch *b, group *g, int64_t text) {
    int64_t width = n->input.inputs;
    float *mean = g->room, *x = mean + width, *query = x + width;
    if (n->context != NULL) {
        NAME(multiply_rows)(&n->p, n->context, 0, 1, query, 0);
        return query;
    }
    memset(mean, 0, width * sizeof(float));
    for (int64_t k = 0; k < g->length[text]; k++) {
        NAME(embed)(n, ids_of(b, g->first + text)[k], x);
        for (int64_t j = 0; j < width; j++)
            mean[j] += x[j];
    }
    for (int64_t j = 0; j < width; j++)
        mean[j] /= g->length[text];
    NAME(multiply_rows)(&n->p, mean, 0, 1, query, 0);
    return query;
}

/* Turn the keys of one word into the scores of its heads. */
INLINED void NAME(score_word)(const network *n, const float *query, float *scores) {
    int64_t heads = n->q.vectors * LANES;
    float total = 0;
    for (int64_t j = 0; j < heads; j += LANES)
        for (int i = 0; i < LANES; i++) {
            float score = query[j + i] * scores[j + i];
            scores[j + i] = n->score_tanh ? NAME(tanh_of)(score) : score;
        }
    for (int64_t j = 0; n->score_l2 && j < n->heads; j++)
        total += scores[j] * scores[j];
    float norm = n->score_l2 ? __builtin_sqrtf(total) : 1;
    norm = norm > 1e-12f ? norm : 1e-12f;
    for (int64_t j = 0; j < heads; j += LANES)
        for (int i = 0; i < LANES; i++)
            scores[j + i] = scores[j + i] / norm * n->temperature[j + i];
}

/* Replace the scores of one text (length, M) by e^(score − maximum); `sums` (M) is their total. */
FAST static void NAME(exponentiate)(float *scores, int64_t length, int64_t heads, float *sums) {
    for (int64_t j = 0; j < heads; j += LANES) {
        float maximum[LANES], sum[LANES];
        for (int i = 0; i < LANES; i++)
            maximum[i] = length ? scores[j + i] : 0, sum[i] = 0;
        for (int64_t k = 1; k < length; k++)
            for (int i = 0; i < LANES; i++) {
                float score = scores[k * heads + j + i];
                maximum[i] = score > maximum[i] ? score : maximum[i];
            }
        for (int64_t k = 0; k < length; k++)
            for (int i = 0; i < LANES; i++) {
                float power = NAME(exp_of)(scores[k * heads + j + i] - maximum[i]);
                scores[k * heads + j + i] = power;
                sum[i] += power;
            }
        for (int i = 0; i < LANES; i++)
            sums[j + i] = sum[i];
    }
}

/* Sum the states of one text with the powers of HEADS heads, two vectors at once: Σ e_ti h_t.
 * The second vector may read beyond the states, but not beyond their memory. */
INLINED void NAME(sum_states)(const float *states, int64_t width, const float *powers,
                              int64_t heads, int64_t length, float *out, int64_t stride) {
    vector sum[HEADS][2];
    for (int i = 0; i < HEADS; i++)
        sum[i][0] = sum[i][1] = (vector){0};
    for (int64_t k = 0; k < length; k++) {
        vector a = *at(states + k * width), c = *at(states + k * width + LANES);
        for (int i = 0; i < HEADS; i++) {
            sum[i][0] += powers[k * heads + i] * a;
            sum[i][1] += powers[k * heads + i] * c;
        }
    }
    for (int i = 0; i < HEADS; i++)
        for (int j = 0; j < 2; j++)
            *at(out + i * stride + j * LANES) = sum[i][j];
}

/* Compute the text embedding S = A H of one text, and its weights if b->weights is not null. */
FAST static void NAME(pool_text)(const network *n, const batch *b, group *g, int64_t text) {
    int64_t heads = n->q.vectors * LANES, width = 2 * n->units, length = g->length[text];
    int64_t stride = round_up(width, 2 * LANES), row = g->first + text;
    float *scores = g->scores + g->start[text] * heads, *sums = g->room, *total = sums + heads;
    const float *states = g->states + g->start[text] * width;
    const float *query = NAME(query)(n, b, g, text);
    for (int64_t k = 0; k < length; k++)
        NAME(score_word)(n, query, scores + k * heads);
    NAME(exponentiate)(scores, length, heads, sums);
    for (int64_t head = 0; head < heads; head += HEADS)
        for (int64_t j = 0; j < width; j += 2 * LANES)
            NAME(sum_states)(states + j, width, scores + head, heads, length,
                             total + head * stride + j, stride);
    for (int64_t head = 0; head < n->heads; head++) {
        float *embedding = g->embedding + (text * n->heads + head) * width;
        for (int64_t j = 0; j < width; j++)
            embedding[j] = total[head * stride + j] / sums[head];
        if (b->weights != NULL)
            for (int64_t k = 0; k < b->words; k++)
                b->weights[(row * n->heads + head) * b->words + k] =
                    k < length ? scores[k * heads + head] / sums[head] : 0;
    }
}

/* Compute the logits of a group from its embeddings. `room` is (TEXTS, hidden and output). */
FAST static void NAME(classify)(const network *n, const batch *b, const group *g, float *room) {
    int64_t inner = n->hidden.vectors * LANES, width = n->output.vectors * LANES;
    const float *x = g->embedding;
    int64_t stride = n->heads * 2 * n->units;
    float *out = room + g->texts * inner;
    if (inner) {
        NAME(multiply_rows)(&n->hidden, x, stride, g->texts, room, inner);
        for (int64_t j = 0; j < g->texts * inner; j++)
            room[j] = room[j] > 0 ? room[j] : 0;
        x = room, stride = inner;
    }
    NAME(multiply_rows)(&n->output, x, stride, g->texts, out, width);
    for (int64_t text = 0; text < g->texts; text++)
        memcpy(b->logits + (g->first + text) * n->classes, out + text * width,
               n->classes * sizeof(float));
}

/* ---- Batches ---- */

/* Copy the states of a group into the padded array of the batch. */
static void NAME(pad_states)(const network *n, const batch *b, const group *g) {
    int64_t width = 2 * n->units;
    for (int64_t i = 0; i < g->texts; i++) {
        float *out = b->states + (g->first + i) * b->words * width;
        int64_t size = g->length[i] * width;
        memcpy(out, g->states + g->start[i] * width, size * sizeof(float));
        memset(out + size, 0, (b->words * width - size) * sizeof(float));
    }
}

/* Start a group with the next of the texts that are left; its size is as even as possible. Long texts
 * are computed alone, since their states take much memory. */
static group NAME(next_group)(const batch *b, int64_t first) {
    int64_t left = b->texts - first, groups = (left + TEXTS - 1) / TEXTS;
    group g = {.first = first, .texts = (left + groups - 1) / groups};
    for (int64_t i = 0; i < g.texts; i++) {
        int64_t length = length_of(b, first + i);
        if (i > 0 && g.words + length > WORDS) {
            g.texts = i;
            break;
        }
        g.length[i] = length;
        g.start[i] = g.words;
        g.words += length;
    }
    return g;
}

/* Return the number of floats of scratch memory that some step of a group needs. */
static int64_t NAME(room_size)(const network *n) {
    int64_t heads = n->q.vectors * LANES, width = 2 * n->units;
    int64_t sizes[] = {
        TEXTS * 5 * n->trios * LANES,                                      /* walk */
        BLOCK * n->input.inputs,                                           /* prepare_gates */
        BLOCK * n->project.vectors * LANES,                                /* score_keys */
        2 * n->input.inputs + heads,                                       /* query */
        heads + round_up(width, 2 * LANES) * heads,                        /* pool_text */
    };
    int64_t largest = 0;
    for (int i = 0; i < 5; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    return largest;
}

static void *NAME(allocate)(int64_t floats) {
    return aligned_alloc(64, round_up(floats * (int64_t)sizeof(float) + 1, 64));
}

FAST static int NAME(run_batch)(const network *n, const batch *b) {
    int64_t heads = n->q.vectors * LANES, row = n->input.vectors * LANES, words = 0;
    for (int64_t first = 0; first < b->texts;) {
        group g = NAME(next_group)(b, first);
        words = g.words > words ? g.words : words;
        first += g.texts;
    }
    float *states = NAME(allocate)(words * 2 * n->units + 2 * LANES);
    float *scores = NAME(allocate)(words * heads), *room = NAME(allocate)(NAME(room_size)(n));
    float *rare = NAME(allocate)(words * row);
    float *classes = NAME(allocate)(TEXTS * (n->hidden.vectors + n->output.vectors) * LANES);
    float *embedding = NAME(allocate)(TEXTS * n->heads * 2 * n->units);
    const float **gates = NAME(allocate)(words * 2);
    int failed = !(states && scores && room && rare && classes && embedding && gates);
    if (!failed)
        memset(states + words * 2 * n->units, 0, 2 * LANES * sizeof(float));
    for (int64_t first = 0; !failed && first < b->texts;) {
        group g = NAME(next_group)(b, first);
        g.gates = gates, g.rare = rare, g.states = states, g.scores = scores, g.room = room;
        g.embedding = embedding;
        if (b->embedding != NULL)
            g.embedding = b->embedding + first * n->heads * 2 * n->units;
        NAME(prepare_gates)(n, b, &g);
        NAME(walk_group)(n, &g);
        if (b->states != NULL)
            NAME(pad_states)(n, b, &g);
        if (n->heads) {
            NAME(score_keys)(n, &g);
            for (int64_t text = 0; text < g.texts; text++)
                NAME(pool_text)(n, b, &g, text);
            NAME(classify)(n, b, &g, classes);
        }
        first += g.texts;
    }
    free(states), free(scores), free(room), free(rare), free(classes), free(embedding), free(gates);
    return failed ? -1 : 0;
}

#undef group
#undef at
#undef vector
#undef INLINED
#undef TRIO
#undef TRIOS
#undef COLUMNS
#undef BLOCK
#undef WORDS
#undef LANES
#undef FAST
#undef NAME
#undef ROWS
#undef TEXTS
#undef HEADS
