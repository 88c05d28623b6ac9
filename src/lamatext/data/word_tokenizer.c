/* Split texts into words, look the words up in a vocabulary, and write their code points.
 *
 * tokenizer.py has the rules as a regular expression and text_encoder.py the lookup, both in Python;
 * compiled_tokenizer.py calls this. The texts are UTF-8 in lower case if the tokenizer has it: ASCII
 * texts as they are, others as words that Python has split, with a line feed between two words.
 * Shapes: n texts, N bytes of all texts, V words in the vocabulary.
 */

#include <stdint.h>
#include <string.h>

#define OPEN 2 /* the marks around a word, as in token_ids.py */
#define CLOSE 3
#define UNKNOWN 1 /* the id of a word outside the vocabulary */

typedef struct {
    uint32_t tag; /* hash of the word */
    int32_t word; /* its index; −1: the slot is free */
} slot;

typedef struct {
    int64_t keep_unknown;   /* 1: words outside the vocabulary have an id too */
    int64_t max_words;      /* longest row of ids */
    int64_t last_words;     /* how many of them are taken from the end of a longer text */
    int64_t size, capacity; /* V; slots: a power of two above V */
    uint64_t factor;        /* random and odd, so that nobody can choose words with equal hashes */
    const uint8_t *bytes;   /* UTF-8 of all words */
    const int64_t *starts;  /* (V + 1,) where each word begins, and their length together */
    const int32_t *ids;     /* (V,) */
    slot *slots;            /* (capacity,) */
} encoder;

enum { SIGN, SPACE, LETTER }; /* a sign is a word of its own */

static const uint8_t kinds[256] = {
    ['\t' ... '\r'] = SPACE, [0x1c ... ' '] = SPACE, ['0' ... '9'] = LETTER,
    ['A' ... 'Z'] = LETTER,  ['_'] = LETTER,         ['a' ... 'z'] = LETTER,
};

static inline uint32_t hash_bytes(const encoder *e, const uint8_t *word, int64_t length) {
    uint64_t hash = e->factor;
    for (int64_t i = 0; i < length; i++)
        hash = (hash ^ word[i]) * e->factor;
    return (uint32_t)((hash ^ hash >> 29) * e->factor >> 32);
}

/* Return the slot of a word, or the free slot where it would be inserted. */
static inline slot *find_slot(const encoder *e, uint32_t tag, const uint8_t *word,
                              int64_t length) {
    int64_t mask = e->capacity - 1, place = tag & mask;
    for (;; place = (place + 1) & mask) {
        slot *s = e->slots + place;
        if (s->word < 0)
            return s;
        const int64_t *start = e->starts + s->word;
        if (s->tag == tag && start[1] - start[0] == length &&
            memcmp(e->bytes + start[0], word, length) == 0)
            return s;
    }
}

/* Fill the slots of a vocabulary, all of which are free at first. */
void build_slots(const encoder *e) {
    for (int64_t i = 0; i < e->size; i++) {
        const uint8_t *word = e->bytes + e->starts[i];
        int64_t length = e->starts[i + 1] - e->starts[i];
        uint32_t tag = hash_bytes(e, word, length);
        *find_slot(e, tag, word, length) = (slot){tag, (int32_t)i};
    }
}

/* Return the id of a word, or UNKNOWN. */
static inline int32_t find_id(const encoder *e, const uint8_t *word, int64_t length) {
    slot *s = find_slot(e, hash_bytes(e, word, length), word, length);
    return s->word < 0 ? UNKNOWN : e->ids[s->word];
}

/* Return the end of the word of an ASCII text that begins at `place`. */
static inline const uint8_t *end_of_word(const uint8_t *place, const uint8_t *end) {
    if (kinds[*place] != LETTER)
        return place + 1;
    for (;;) {
        while (place < end && kinds[*place] == LETTER)
            place++;
        if (end - place < 2 || *place != '\'' || kinds[place[1]] != LETTER)
            return place;
        place++;
    }
}

/* Decode UTF-8 (surrogates included), which is valid because Python has encoded it; an incomplete
 * character at the end of the word is dropped. Returns the end of the code points, at most one per
 * byte. */
static uint32_t *decode(const uint8_t *place, const uint8_t *end, uint32_t *out) {
    while (place < end) {
        uint32_t first = *place++;
        int more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint32_t point = more ? first & (0x3f >> more) : first;
        if (end - place < more)
            return out;
        for (; more > 0; more--)
            point = point << 6 | (*place++ & 0x3f);
        *out++ = point;
    }
    return out;
}

/* Drop the middle of a row of ids that is too long, fill an empty one; returns its length. */
static int64_t shorten(const encoder *e, int32_t *ids, int64_t count) {
    if (count > e->max_words) {
        memmove(ids + e->max_words - e->last_words, ids + count - e->last_words,
                e->last_words * sizeof(int32_t));
        count = e->max_words;
    }
    if (count == 0)
        ids[count++] = UNKNOWN;
    return count;
}

/* Split and look up all texts, and return the number of code points that were written.
 *
 * `numbers` is an array for these, one after the other:
 *     starts (n + 1)   where the bytes of each text begin, and N
 *     are_words (n)    1: a text is given as its words
 *     offsets (n + 1)  out: where the ids of each text begin, and their number
 *     known (n)        out: words of each text that the vocabulary has
 *     bounds (n + 1)   out: the first word of each text, and the number of words
 *     lengths (N)      out: code points of each word, marks included
 * `ids` (N + n) are the word ids, at least one per text, and `points` (3 N) the code points of all
 * words, each word between its marks.
 */
int64_t tokenize(const encoder *e, const uint8_t *bytes, int64_t texts, int64_t *numbers,
                 int32_t *ids, uint32_t *points) {
    const int64_t *starts = numbers, *are_words = starts + texts + 1;
    int64_t *offsets = numbers + 2 * texts + 1, *known = offsets + texts + 1;
    int64_t *bounds = known + texts, *lengths = bounds + texts + 1, words = 0;
    uint32_t *end = points;
    offsets[0] = bounds[0] = 0;
    for (int64_t text = 0; text < texts; text++) {
        const uint8_t *place = bytes + starts[text], *last = bytes + starts[text + 1];
        int32_t *row = ids + offsets[text];
        int64_t count = 0;
        known[text] = 0;
        while (place < last) {
            const uint8_t *stop;
            if (are_words[text]) {
                stop = memchr(place, '\n', last - place);
                stop = stop == NULL ? last : stop;
            } else
                stop = kinds[*place] == SPACE ? place : end_of_word(place, last);
            if (stop == place) { /* between two words */
                place++;
                continue;
            }
            int32_t id = find_id(e, place, stop - place);
            known[text] += id != UNKNOWN;
            if (id != UNKNOWN || e->keep_unknown)
                row[count++] = id;
            uint32_t *first = end;
            *end++ = OPEN;
            if (are_words[text])
                end = decode(place, stop, end);
            else
                for (const uint8_t *byte = place; byte < stop; byte++)
                    *end++ = *byte;
            *end++ = CLOSE;
            lengths[words++] = end - first;
            place = stop;
        }
        bounds[text + 1] = words;
        offsets[text + 1] = offsets[text] + shorten(e, row, count);
    }
    return end - points;
}
