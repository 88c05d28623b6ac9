/* Bidirectional GRU of a saved model, for inference on a CPU. compiled_gru.py arranges the weights
 * and calls project() and walk().
 *
 *     r = σ(W_ir x + b_ir + W_hr s + b_hr)      v = W_hn s + b_hn
 *     z = σ(W_iz x + b_iz + W_hz s + b_hz)      n = tanh(W_in x + b_in + r v)
 *     s ← n + z (s − n)
 *
 * Hidden units are processed in groups of eight: a SIMD vector holds one gate of eight units, a trio
 * holds their three gates r, z and n. Every sum is accumulated in registers.
 * Shapes: B texts, T words, E inputs, h hidden units per direction, N = ⌈h / 8⌉ trios.
 */

#include <stdint.h>
#include <string.h>

#define LANES 8
#define TRIO (3 * LANES)
#define WORDS 3 /* words projected at once: as many as the registers hold */
#define TRIOS 4 /* trios updated at once: as many as the registers hold */
#define TEXTS 4 /* texts updated at once: their trios fill the registers, too */

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2,fma")))
#else
#define FAST
#endif
#define INLINED static inline __attribute__((always_inline)) FAST

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    int64_t inputs, units, trios, known; /* E, h, N, and the rows of `gates` */
    const float *input_weights;          /* (2, N, E, 3, 8) */
    const float *input_biases;           /* (2, N, 3, 8): b_i, for r and z plus b_h */
    const float *state_weights;          /* (2, N, h, 3, 8) */
    const float *state_biases;           /* (2, N, 3, 8): b_hn, zero for r and z */
    const float *gates;                  /* (known, 2, N, 3, 8): W_i x + b of the most frequent words */
} gru;

int can_run(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0; /* not tested on other architectures */
#endif
}

INLINED vector *at(const float *place) { return (vector *)place; }

/* Compute W_i x + b of one trio for some words x (words, E). */
INLINED void project_words(const gru *g, int64_t trio, const float *x, float *out,
                           const int words) {
    const float *weight = g->input_weights + trio * g->inputs * TRIO;
    vector sum[WORDS][3];
    for (int i = 0; i < words; i++)
        for (int gate = 0; gate < 3; gate++)
            sum[i][gate] = *at(g->input_biases + trio * TRIO + gate * LANES);
    for (int64_t k = 0; k < g->inputs; k++, weight += TRIO)
        for (int gate = 0; gate < 3; gate++)
            for (int i = 0; i < words; i++)
                sum[i][gate] += x[i * g->inputs + k] * *at(weight + gate * LANES);
    for (int i = 0; i < words; i++)
        for (int gate = 0; gate < 3; gate++)
            *at(out + (i * 2 * g->trios + trio) * TRIO + gate * LANES) = sum[i][gate];
}

/* Compute W_i x + b of words x (count, E) into out (count, 2, N, 3, 8). */
FAST void project(const gru *g, const float *x, int64_t count, float *out) {
    int64_t row = 2 * g->trios * TRIO, i;
    for (int64_t trio = 0; trio < 2 * g->trios; trio++) {
        for (i = 0; i + WORDS <= count; i += WORDS)
            project_words(g, trio, x + i * g->inputs, out + i * row, WORDS);
        for (; i < count; i++)
            project_words(g, trio, x + i * g->inputs, out + i * row, 1);
    }
}

/* tanh as a quotient of polynomials, as in Eigen and ONNX Runtime; exact to the last few bits. */
INLINED float tanh_of(float x) {
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

INLINED float sigmoid(float x) { return 0.5f + 0.5f * tanh_of(0.5f * x); }

/* Update the states of one trio, given W_i x + b (3, 8) of its word and W_h s + b_h. */
INLINED void update(const float *x, const float *u, const float *old, float *new) {
    for (int j = 0; j < LANES; j++) {
        float r = sigmoid(x[j] + u[j]), z = sigmoid(x[LANES + j] + u[LANES + j]);
        float n = tanh_of(x[2 * LANES + j] + r * u[2 * LANES + j]);
        new[j] = n + z * (old[j] - n);
    }
}

/* Update the states of some trios by one word; `gates` is its W_i x + b, `old` (N, 8) the states
 * before it. */
INLINED void step(const gru *g, int64_t way, int64_t first, const float *gates, const float *old,
                  float *new, const int trios) {
    int64_t h = g->units, trio = way * g->trios + first;
    const float *weight = g->state_weights + trio * h * TRIO;
    vector sum[TRIOS][3];
    float share[TRIOS * TRIO];
    for (int i = 0; i < trios; i++)
        for (int gate = 0; gate < 3; gate++)
            sum[i][gate] = *at(g->state_biases + (trio + i) * TRIO + gate * LANES);
    for (int64_t k = 0; k < h; k++)
        for (int i = 0; i < trios; i++)
            for (int gate = 0; gate < 3; gate++)
                sum[i][gate] += old[k] * *at(weight + (i * h + k) * TRIO + gate * LANES);
    for (int i = 0; i < trios; i++)
        for (int gate = 0; gate < 3; gate++)
            *at(share + i * TRIO + gate * LANES) = sum[i][gate];
    for (int i = 0; i < trios; i++)
        update(gates + (first + i) * TRIO, share + i * TRIO, old + (first + i) * LANES,
               new + (first + i) * LANES);
}

/* Update all states of several texts by one word each: every weight is loaded once for all texts.
 * The sums are those of step(), in the same order. */
INLINED void step_texts(const gru *g, int64_t way, const float *const *gates,
                        const float *const *old, float *const *new, float *shares,
                        const int texts) {
    int64_t h = g->units, size = g->trios * TRIO;
    for (int64_t trio = 0; trio < g->trios; trio++) {
        const float *weight = g->state_weights + (way * g->trios + trio) * h * TRIO;
        const float *bias = g->state_biases + (way * g->trios + trio) * TRIO;
        vector sum[TEXTS][3];
        for (int i = 0; i < texts; i++)
            for (int gate = 0; gate < 3; gate++)
                sum[i][gate] = *at(bias + gate * LANES);
        for (int64_t k = 0; k < h; k++, weight += TRIO) {
            vector r = *at(weight), z = *at(weight + LANES), n = *at(weight + 2 * LANES);
            for (int i = 0; i < texts; i++) {
                sum[i][0] += old[i][k] * r;
                sum[i][1] += old[i][k] * z;
                sum[i][2] += old[i][k] * n;
            }
        }
        for (int i = 0; i < texts; i++)
            for (int gate = 0; gate < 3; gate++)
                *at(shares + i * size + trio * TRIO + gate * LANES) = sum[i][gate];
    }
    for (int i = 0; i < texts; i++)
        for (int64_t trio = 0; trio < g->trios; trio++)
            update(gates[i] + trio * TRIO, shares + i * size + trio * TRIO,
                   old[i] + trio * LANES, new[i] + trio * LANES);
}

/* Update all states by one word, into `new` (N, 8).
 *
 * The weights do not fit into the L1 cache, so the direction alternates: each step starts with the
 * weights that the previous one used last. step() is inlined with a constant number of trios.
 */
INLINED void step_all(const gru *g, int64_t way, int64_t turn, const float *gates,
                      const float *old, float *new) {
    int64_t groups = (g->trios + TRIOS - 1) / TRIOS;
    for (int64_t i = 0; i < groups; i++) {
        int64_t first = TRIOS * (turn % 2 ? groups - 1 - i : i);
        if (g->trios - first >= TRIOS)
            step(g, way, first, gates, old, new, TRIOS);
        else if (g->trios - first == 3)
            step(g, way, first, gates, old, new, 3);
        else if (g->trios - first == 2)
            step(g, way, first, gates, old, new, 2);
        else
            step(g, way, first, gates, old, new, 1);
    }
}

/* A batch of texts: `places` (B, T) below `known` are rows of g->gates, any others rows of `others`
 * after subtracting `known`. */
typedef struct {
    const int32_t *places, *lengths;
    const float *others;
    int64_t texts, words; /* B, T */
    float *out;           /* (B, T, 2h) */
} batch;

INLINED int64_t length_of(const batch *b, int64_t text) {
    int64_t length = b->lengths[text] < b->words ? b->lengths[text] : b->words;
    return length > 0 ? length : 0;
}

/* Return W_i x + b of a word in one direction (N, 3, 8). */
INLINED const float *gates_of(const gru *g, const batch *b, int64_t way, int64_t text,
                              int64_t word) {
    int64_t row = 2 * g->trios * TRIO, place = b->places[text * b->words + word];
    const float *gates = place < g->known ? g->gates + place * row
                                          : b->others + (place - g->known) * row;
    return gates + way * g->trios * TRIO;
}

INLINED void write_states(const gru *g, const batch *b, int64_t way, int64_t text, int64_t word,
                          const float *states) {
    memcpy(b->out + (2 * (text * b->words + word) + way) * g->units, states,
           g->units * sizeof(float));
}

/* Run one direction over the words of some texts, step by step as long as all of them have words,
 * then over the rest of each text. `room` is (TEXTS, 2, N, 8), the states before and after a word,
 * and (TEXTS, N, 3, 8) for their shares of the gates. */
INLINED void walk_texts(const gru *g, const batch *b, int64_t way, int64_t first, float *room,
                        const int texts) {
    int64_t size = g->trios * LANES, common = length_of(b, first), k;
    const float *gates[TEXTS], *old[TEXTS];
    float *new[TEXTS];
    for (int i = 1; i < texts; i++)
        common = length_of(b, first + i) < common ? length_of(b, first + i) : common;
    memset(room, 0, 2 * texts * size * sizeof(float));
    for (k = 0; texts > 1 && k < common; k++) {
        for (int i = 0; i < texts; i++) {
            int64_t word = way ? length_of(b, first + i) - 1 - k : k;
            gates[i] = gates_of(g, b, way, first + i, word);
            old[i] = room + (2 * i + k % 2) * size;
            new[i] = room + (2 * i + 1 - k % 2) * size;
        }
        step_texts(g, way, gates, old, new, room + 2 * TEXTS * size, texts);
        for (int i = 0; i < texts; i++)
            write_states(g, b, way, first + i, way ? length_of(b, first + i) - 1 - k : k, new[i]);
    }
    for (int i = 0; i < texts; i++)
        for (int64_t rest = k; rest < length_of(b, first + i); rest++) {
            int64_t word = way ? length_of(b, first + i) - 1 - rest : rest;
            float *before = room + (2 * i + rest % 2) * size;
            float *after = room + (2 * i + 1 - rest % 2) * size;
            step_all(g, way, rest, gates_of(g, b, way, first + i, word), before, after);
            write_states(g, b, way, first + i, word, after);
        }
}

/* Run the bidirectional GRU over a batch, into out (B, T, 2h); padding becomes zero.
 *
 * Texts that follow each other should have similar lengths. `room` is scratch memory (4, 5, N, 8).
 */
FAST void walk(const gru *g, const int32_t *places, const int32_t *lengths, const float *others,
               int64_t texts, int64_t words, float *room, float *out) {
    batch b = {places, lengths, others, texts, words, out};
    for (int64_t first = 0; first < texts; first += TEXTS)
        for (int64_t way = 0; way < 2; way++) {
            if (texts - first >= TEXTS)
                walk_texts(g, &b, way, first, room, TEXTS);
            else if (texts - first == 3)
                walk_texts(g, &b, way, first, room, 3);
            else if (texts - first == 2)
                walk_texts(g, &b, way, first, room, 2);
            else
                walk_texts(g, &b, way, first, room, 1);
        }
    for (int64_t text = 0; text < texts; text++) {
        int64_t length = length_of(&b, text), units = 2 * g->units;
        memset(out + (text * words + length) * units, 0, (words - length) * units * sizeof(float));
    }
}
