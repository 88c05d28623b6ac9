/* Logits of an n-gram table: hash the n-grams of texts, look them up, and sum their weights.
 *
 * hashing.py has the hash and model.py the equation, both in NumPy; compiled_lookup.py calls this.
 * Shapes: n texts, W words, K n-grams in the table, R rows of weights.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BASE 2654435761u
#define STEP 0x9E3779B9u

typedef struct {
    int64_t max_words, shortest, longest; /* lengths of n-grams; longest is 0 without characters */
    int64_t size, rows;                   /* K, R */
    const uint32_t *keys;                 /* (K,) ascending */
    const uint8_t *idf;                   /* (K,) */
    const int8_t *weights;                /* (R, K) */
    const float *idf_step, *steps;        /* (1,), (R,) */
    const int32_t *starts;                /* where the keys of each bucket begin, and K */
    int64_t shift;                        /* a key's bucket is key >> shift */
} table;

typedef struct {
    const uint32_t *points; /* code points of all words, each between its two marks */
    const int64_t *lengths; /* (W,) of the words, marks included */
    const int64_t *bounds;  /* (n + 1,) the first word of each text, and W */
    int64_t texts;          /* n */
} framed;

typedef struct {
    int32_t place, number; /* of an n-gram in the table; its count, or its index in `distinct` */
} entry;

typedef struct {
    uint32_t *keys;  /* n-grams of a text; then those that the table has, as places */
    uint32_t *words; /* mixed hashes of the words of a text */
    int32_t *places; /* where the bucket of each n-gram begins */
    entry *slots;    /* hash table: the index of each distinct n-gram of a text */
    entry *distinct; /* their counts, in the order of their first occurrence */
} room;

static inline uint32_t mix(uint32_t h) {
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return h ^ (h >> 16);
}

/* Return an upper bound of the n-grams of a text whose words have so many code points. */
static int64_t most_ngrams(const table *t, int64_t words, int64_t points) {
    return words * t->max_words + (t->longest ? points * (t->longest - t->shortest + 1) : 0);
}

static uint32_t *hash_characters(const table *t, const uint32_t *points, int64_t length,
                                 uint32_t *out) {
    for (int64_t first = 0; first < length; first++) {
        int64_t longest = length - first < t->longest ? length - first : t->longest;
        uint32_t sum = 0;
        for (int64_t n = 1; n <= longest; n++) {
            sum = sum * BASE + points[first + n - 1];
            if (n >= t->shortest)
                *out++ = mix(sum + (uint32_t)n * STEP);
        }
    }
    return out;
}

static inline uint32_t hash_word(const uint32_t *points, int64_t length) {
    uint32_t sum = 0;
    for (int64_t i = length - 1; i >= 0; i--)
        sum = sum * BASE + points[i]; /* Σ c_i BASE^i */
    return mix(sum);
}

/* Write the keys of all n-grams of a text into `out`; returns how many. */
static int64_t hash_text(const table *t, const uint32_t *points, const int64_t *lengths,
                         int64_t words, uint32_t *hashes, uint32_t *out) {
    uint32_t *end = out;
    for (int64_t word = 0; word < words; points += lengths[word++]) {
        if (t->longest)
            end = hash_characters(t, points, lengths[word], end);
        if (t->max_words == 0)
            continue;
        *end++ = hashes[word] = hash_word(points, lengths[word]);
        uint32_t sum = hashes[word], power = 1;
        for (int64_t n = 2; n <= t->max_words && n <= word + 1; n++) { /* those that end here */
            power *= BASE;
            sum += hashes[word - n + 1] * power;
            *end++ = mix(sum);
        }
    }
    return end - out;
}

/* Replace the keys by the places of those that the table has; returns how many.
 * Two loops, so that the processor waits for many memory accesses at the same time. */
static int64_t find_keys(const table *t, uint32_t *keys, int32_t *places, int64_t count) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        places[i] = t->starts[keys[i] >> t->shift];
    for (int64_t i = 0; i < count; i++) {
        int64_t place = places[i];
        while (place < t->size && t->keys[place] < keys[i])
            place++;
        if (place < t->size && t->keys[place] == keys[i])
            keys[found++] = (uint32_t)place;
    }
    return found;
}

/* Count the distinct places; returns how many. */
static int64_t count_distinct(const room *r, int64_t count, int64_t capacity) {
    int64_t distinct = 0;
    memset(r->slots, 0xff, capacity * sizeof(entry)); /* place −1: free */
    for (int64_t i = 0; i < count; i++) {
        uint32_t place = r->keys[i], slot = (place * BASE >> 7) & (capacity - 1);
        while (r->slots[slot].place >= 0 && r->slots[slot].place != (int32_t)place)
            slot = (slot + 1) & (capacity - 1);
        entry *e = r->slots + slot;
        if (e->place < 0) {
            *e = (entry){(int32_t)place, (int32_t)distinct};
            r->distinct[distinct++] = (entry){(int32_t)place, 0};
        }
        r->distinct[e->number].number++;
    }
    return distinct;
}

static void sum_weights(const table *t, const entry *distinct, int64_t count, float *values,
                        float *out) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        float idf = t->idf[distinct[i].place] * *t->idf_step;
        double frequency = distinct[i].number == 1 ? 1 : 1 + log(distinct[i].number);
        values[i] = (float)(frequency * idf);
        squares += (double)values[i] * values[i];
    }
    double norm = sqrt(squares);
    norm = norm > 1e-12 ? norm : 1e-12;
    for (int64_t row = 0; row < t->rows; row++) {
        const int8_t *weights = t->weights + row * t->size;
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            sum += values[i] * weights[distinct[i].place];
        out[row] = (float)(sum / norm * t->steps[row]);
    }
}

static int64_t capacity_of(int64_t ngrams) {
    int64_t capacity = 16;
    while (capacity < 2 * ngrams)
        capacity *= 2;
    return capacity;
}

/* Compute the logits (n, R) that the table contributes to each text.
 * Returns 0, or -1 if there is not enough memory. */
int sum_ngrams(const table *t, const framed *f, float *out) {
    int64_t ngrams = 1, words = 1, points = 0;
    for (int64_t text = 0; text < f->texts; text++) {
        int64_t first = points;
        for (int64_t word = f->bounds[text]; word < f->bounds[text + 1]; word++)
            points += f->lengths[word];
        int64_t own = f->bounds[text + 1] - f->bounds[text];
        int64_t most = most_ngrams(t, own, points - first);
        words = own > words ? own : words;
        ngrams = most > ngrams ? most : ngrams;
    }
    room r = {malloc(ngrams * 4), malloc(words * 4), malloc(ngrams * 4),
              malloc(capacity_of(ngrams) * sizeof(entry)), malloc(ngrams * sizeof(entry))};
    int failed = !(r.keys && r.words && r.places && r.slots && r.distinct);
    const uint32_t *place = f->points;
    for (int64_t text = 0; !failed && text < f->texts; text++) {
        const int64_t *lengths = f->lengths + f->bounds[text];
        int64_t own = f->bounds[text + 1] - f->bounds[text];
        int64_t count = hash_text(t, place, lengths, own, r.words, r.keys);
        count = find_keys(t, r.keys, r.places, count);
        count = count_distinct(&r, count, capacity_of(count));
        sum_weights(t, r.distinct, count, (float *)r.places, out + text * t->rows);
        for (int64_t word = 0; word < own; word++)
            place += lengths[word];
    }
    free(r.keys), free(r.words), free(r.places), free(r.slots), free(r.distinct);
    return failed ? -1 : 0;
}
