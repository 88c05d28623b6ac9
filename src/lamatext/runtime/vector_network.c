/* Bidirectional GRU, low-rank attention and classifier of a saved model, for inference on a CPU.
 * compiled_network.py arranges the weights and calls these functions.
 *
 * vector_kernels.h has the equations. It is compiled twice, for vectors of 8 floats (AVX2) and of 16
 * (AVX-512); lanes() tells which of them the CPU runs, and so how the weights must be arranged.
 * Shapes: B texts, T words, E embedding width, h hidden units per direction, D = 2h, M heads,
 * C classes, L lanes, N = ⌈h / L⌉.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { /* y = W x + b */
    int64_t inputs, vectors; /* the outputs are padded with zeros to a multiple of L */
    const float *weights;    /* (vectors, inputs, L) */
    const float *biases;     /* (vectors, L) */
} dense;

typedef struct {
    int64_t units, trios, known; /* h, N, and the rows of `gates` */
    const int8_t *bytes;         /* (V, E), or null: the word vectors are in `floats` */
    const float *scales;         /* (V,): what the bytes are multiplied by */
    const float *floats;         /* (V, E) */
    dense input;                 /* E → (2, N, 3, L): W_i x + b_i, for r and z plus b_h */
    const float *state_weights;  /* (2, N, h, 3, L) */
    const float *state_biases;   /* (2, N, 3, L): b_hn, zero for r and z */
    const float *gates;          /* (known, 2, N, 3, L): `input` of the most frequent words */
    int64_t heads, classes;      /* M, C; 0 heads: the states are all there is */
    int64_t score_tanh, score_l2;
    const float *context;        /* (D,), or null: the mean of the text's word vectors */
    const float *temperature;    /* (M,) padded to L */
    dense project;               /* D → D; no vectors: the states are scored */
    dense p, q;                  /* context → M, D → M */
    dense hidden, output;        /* M D → hidden units → C, or M D → C if hidden has no vectors */
} network;

typedef struct {
    const int32_t *ids;     /* of all texts */
    const int64_t *starts;  /* (B,) where the ids of each text begin */
    const int32_t *lengths; /* (B,) */
    int64_t texts, words;   /* B, T: the most words of a text */
    float *states;          /* (B, T, D), or null; zero in the padding */
    float *weights;         /* (B, M, T), or null; zero in the padding */
    float *embedding;       /* (B, M, D), or null */
    float *logits;          /* (B, C); null if there are no heads */
} batch;

static inline int64_t length_of(const batch *b, int64_t text) {
    int64_t length = b->lengths[text] < b->words ? b->lengths[text] : b->words;
    return length > 0 ? length : 0;
}

static inline const int32_t *ids_of(const batch *b, int64_t text) {
    return b->ids + b->starts[text];
}

static inline int64_t round_up(int64_t number, int64_t multiple) {
    return (number + multiple - 1) / multiple * multiple;
}

#if defined(__x86_64__)

#define LANES 8
#define FAST __attribute__((target("avx2,fma")))
#define NAME(name) name##_8
#define ROWS 6  /* rows of a matrix multiplied at once: two vectors of each fill the registers */
#define TEXTS 4 /* texts updated at once: the three gates of each fill the registers */
#define HEADS 4 /* heads that sum the states at once */
#include "vector_kernels.h"

#define LANES 16
#if defined(__clang__)
#define FAST __attribute__((target("avx512f,avx2,fma")))
#else
#define FAST __attribute__((target("avx512f,avx2,fma,prefer-vector-width=512")))
#endif
#define NAME(name) name##_16
#define ROWS 12
#define TEXTS 8
#define HEADS 8
#include "vector_kernels.h"

/* Return the floats in a vector of the best code for this CPU; 0: it runs none of it. */
int lanes(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

/* Compute W x + b of rows x (count, inputs) into out (count, vectors, L). */
void multiply(int vector, const dense *d, const float *x, int64_t count, float *out) {
    int64_t width = d->vectors * vector;
    (vector == 16 ? multiply_rows_16 : multiply_rows_8)(d, x, d->inputs, count, out, width);
}

/* Compute the outputs of a batch. Returns 0, or -1 if there is not enough memory. */
int run(int vector, const network *n, const batch *b) {
    return vector == 16 ? run_batch_16(n, b) : run_batch_8(n, b);
}

#else /* not tested on other architectures: ONNX Runtime runs the network */

int lanes(void) { return 0; }
void multiply(int vector, const dense *d, const float *x, int64_t count, float *out) {}
int run(int vector, const network *n, const batch *b) { return -1; }

#endif
