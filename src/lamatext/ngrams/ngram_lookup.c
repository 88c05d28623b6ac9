/* Logits of an n-gram table: hash the n-grams of texts, look them up, and sum their weights.
 *
 * hashing.py has the hash and model.py the equation, both in NumPy; compiled_lookup.py calls this.
 * The keys lie in slots: each in its home, which is proportional to the key, or in the first free slot
 * after it. So the slots are in ascending order too, and a key is found by one memory access, which
 * begins when the key is hashed and ends when it is looked up.
 * Shapes: n texts, W words, K n-grams in the table, R rows of weights, S slots.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BASE 2654435761u
#define STEP 0x9E3779B9u
#define FAR 16    /* slots after its home in which a key is sought one after the other */
#define COUNTS 32 /* counts whose logarithms are computed once */

typedef struct {
    int64_t max_words, shortest, longest; /* lengths of n-grams; longest is 0 without characters */
    int64_t size, rows;                   /* K, R */
    const uint32_t *keys;                 /* (K,) ascending */
    const uint8_t *idf;                   /* (K,) */
    const int8_t *weights;                /* (R, K) */
    const float *idf_step, *steps;        /* (1,), (R,) */
    int64_t homes, used;                  /* slots that are homes; slots up to the last key */
    uint32_t *slots;                      /* (S,) S = homes + K + 1; a free slot has the next key */
    int8_t *values;                       /* (S, 1 + R) idf and weights of the key in each slot */
} table;

typedef struct {
    const uint32_t *points; /* code points of all words, each between its two marks */
    const int64_t *lengths; /* (W,) of the words, marks included */
    const int64_t *bounds;  /* (n + 1,) the first word of each text, and W */
    int64_t texts;          /* n */
} framed;

typedef struct {
    int32_t place, number; /* the slot of an n-gram; its count, or its index in `distinct` */
} entry;

typedef struct {
    uint32_t *keys;  /* n-grams of a text; then the slots of those that the table has */
    uint32_t *words; /* mixed hashes of the words of a text */
    entry *slots;    /* hash table: the index of each distinct n-gram of a text */
    entry *distinct; /* their counts, in the order of their first occurrence; one place is spare */
    float *values;   /* TF-IDF values of the distinct n-grams */
    double frequencies[COUNTS]; /* 1 + ln count */
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

static inline int64_t home_of(const table *t, uint32_t key) {
    return (int64_t)((uint64_t)key * (uint64_t)t->homes >> 32);
}

/* Append a key, and load its slot into the cache for find_keys. */
static inline uint32_t *append(const table *t, uint32_t *end, uint32_t key) {
    __builtin_prefetch(t->slots + home_of(t, key));
    *end = key;
    return end + 1;
}

static uint32_t *hash_characters(const table *t, const uint32_t *points, int64_t length,
                                 uint32_t *out) {
    for (int64_t first = 0; first < length; first++) {
        int64_t longest = length - first < t->longest ? length - first : t->longest;
        uint32_t sum = 0;
        for (int64_t n = 1; n <= longest; n++) {
            sum = sum * BASE + points[first + n - 1];
            if (n >= t->shortest)
                out = append(t, out, mix(sum + (uint32_t)n * STEP));
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
        hashes[word] = hash_word(points, lengths[word]);
        end = append(t, end, hashes[word]);
        uint32_t sum = hashes[word], power = 1;
        for (int64_t n = 2; n <= t->max_words && n <= word + 1; n++) { /* those that end here */
            power *= BASE;
            sum += hashes[word - n + 1] * power;
            end = append(t, end, mix(sum));
        }
    }
    return end - out;
}

/* Put the keys of a table and their values into its slots. */
void fill_slots(table *t) {
    int64_t width = 1 + t->rows, slot = 0;
    for (int64_t i = 0; i < t->size; i++) {
        int64_t home = home_of(t, t->keys[i]), place = home > slot ? home : slot;
        while (slot <= place)
            t->slots[slot++] = t->keys[i];
        int8_t *value = t->values + place * width;
        value[0] = (int8_t)t->idf[i];
        for (int64_t row = 0; row < t->rows; row++)
            value[1 + row] = t->weights[row * t->size + i];
    }
    t->used = slot;
    do /* the search ends here at the latest */
        t->slots[slot] = UINT32_MAX;
    while (slot++ < t->homes);
}

/* Return the first slot whose key is not below the given one, by bisection. */
static int64_t bisect(const table *t, uint32_t key, int64_t first) {
    int64_t last = t->used;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (t->slots[middle] < key)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Replace the keys by the slots of those that the table has; returns how many. */
static int64_t find_keys(const table *t, uint32_t *keys, int64_t count) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t key = keys[i];
        int64_t home = home_of(t, key), place = home;
        for (int step = 0; step < 3; step++) /* no branches here and below: none is mispredicted */
            place += t->slots[place] < key;
        while (t->slots[place] < key)
            if (++place >= home + FAR) { /* not with the hashes of a trained model */
                place = bisect(t, key, place);
                break;
            }
        keys[found] = (uint32_t)place;
        found += (t->slots[place] == key) & (place < t->used);
    }
    return found;
}

/* Count the distinct slots; returns how many. */
static int64_t count_distinct(const table *t, const room *r, int64_t count, int64_t capacity) {
    int64_t distinct = 0;
    memset(r->slots, 0xff, capacity * sizeof(entry)); /* place −1: free */
    for (int64_t i = 0; i < count; i++) {
        uint32_t place = r->keys[i], slot = (place * BASE >> 7) & (capacity - 1);
        while (r->slots[slot].place >= 0 && r->slots[slot].place != (int32_t)place)
            slot = (slot + 1) & (capacity - 1);
        entry *e = r->slots + slot;
        int32_t is_new = e->place < 0;
        r->distinct[distinct] = (entry){(int32_t)place, 0}; /* without a branch: half are new */
        *e = (entry){(int32_t)place, is_new ? (int32_t)distinct : e->number};
        distinct += is_new;
        __builtin_prefetch(t->values + place * (1 + t->rows));
        r->distinct[e->number].number++;
    }
    return distinct;
}

/* Sum the weights of some rows, starting with `first`: Σ value · weight. */
static inline __attribute__((always_inline)) void sum_rows(const table *t, const room *r,
                                                           int64_t count, int64_t first,
                                                           double *sums, const int rows) {
    const int8_t *weights = t->values + 1 + first;
    double sum[4] = {0};
    for (int64_t i = 0; i < count; i++)
        for (int row = 0; row < rows; row++)
            sum[row] += r->values[i] * weights[r->distinct[i].place * (1 + t->rows) + row];
    memcpy(sums, sum, rows * sizeof(double));
}

static void sum_weights(const table *t, const room *r, int64_t count, float *out) {
    double squares = 0, sums[4];
    for (int64_t i = 0; i < count; i++) {
        uint8_t steps = (uint8_t)t->values[r->distinct[i].place * (1 + t->rows)];
        int32_t number = r->distinct[i].number;
        float idf = steps * *t->idf_step;
        double frequency = number < COUNTS ? r->frequencies[number] : 1 + log(number);
        r->values[i] = (float)(frequency * idf);
        squares += (double)r->values[i] * r->values[i];
    }
    double norm = sqrt(squares);
    norm = norm > 1e-12 ? norm : 1e-12;
    for (int64_t first = 0, rows; first < t->rows; first += rows) {
        rows = t->rows - first >= 4 ? 4 : 1;
        if (rows == 4)
            sum_rows(t, r, count, first, sums, 4);
        else
            sum_rows(t, r, count, first, sums, 1);
        for (int64_t row = 0; row < rows; row++)
            out[first + row] = (float)(sums[row] / norm * t->steps[first + row]);
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
    room r = {.keys = malloc(ngrams * 4),
              .words = malloc(words * 4),
              .slots = malloc(capacity_of(ngrams) * sizeof(entry)),
              .distinct = malloc((ngrams + 1) * sizeof(entry)),
              .values = malloc(ngrams * 4)};
    int failed = !(r.keys && r.words && r.slots && r.distinct && r.values);
    for (int number = 1; number < COUNTS; number++)
        r.frequencies[number] = number == 1 ? 1 : 1 + log(number);
    const uint32_t *place = f->points;
    for (int64_t text = 0; !failed && text < f->texts; text++) {
        const int64_t *lengths = f->lengths + f->bounds[text];
        int64_t own = f->bounds[text + 1] - f->bounds[text];
        int64_t count = hash_text(t, place, lengths, own, r.words, r.keys);
        count = find_keys(t, r.keys, count);
        count = count_distinct(t, &r, count, capacity_of(count));
        sum_weights(t, &r, count, out + text * t->rows);
        for (int64_t word = 0; word < own; word++)
            place += lengths[word];
    }
    free(r.keys), free(r.words), free(r.slots), free(r.distinct), free(r.values);
    return failed ? -1 : 0;
}
