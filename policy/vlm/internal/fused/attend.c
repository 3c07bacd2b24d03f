#include "attend.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "dot.h"
#include "small.h"
#include "team.h"

// ROWS queries are computed at a time, against COLUMNS keys at a time, whose scores and values stay in the first cache.
// Blocks in which nothing is allowed are left out, which changes no bit. PARTS divides a head's queries where there are
// few heads.
enum { ROWS = 32, COLUMNS = 64, PARTS = 4, FEW = 16 };

static const float masked = -1e30f;

typedef uint8_t b8 __attribute__((vector_size(8)));

// room is what a head is computed with.
typedef struct {
	const attention *a;
	multiply *times;
	int64_t wide, blocks;  // filled width, and blocks of keys
	float *k, *v;          // of the head: [blocks, wide, COLUMNS] and [blocks, COLUMNS, wide]
	float *q, *sums;       // [ROWS, wide]
	float s[ROWS * COLUMNS], top[ROWS], total[ROWS];
} room;

// pack copies the keys, transposed, and values of a head into blocks; what is missing is 0.
static void pack(room *m, const float *k, const float *v) {
	int64_t dim = m->a->dim, keys = m->a->keys, block = COLUMNS * m->wide;
	memset(m->k, 0, m->blocks * block * sizeof *m->k);
	memset(m->v, 0, m->blocks * block * sizeof *m->v);
	for (int64_t i = 0; i < keys; i++) {
		float *to = m->k + i / COLUMNS * block + i % COLUMNS;
		for (int64_t c = 0; c < dim; c++)
			to[c * COLUMNS] = k[i * dim + c];
		memcpy(m->v + i * m->wide, v + i * dim, dim * sizeof *v);
	}
}

// allowed copies what a block's queries may attend to, and reports whether that is anything.
static int allowed(const room *m, const uint8_t *mask, int64_t rows, int64_t from, uint8_t *to) {
	int64_t keys = m->a->keys, n = keys - from < COLUMNS ? keys - from : COLUMNS;
	uint64_t any = 0, eight;
	memset(to, 0, ROWS * COLUMNS);
	for (int64_t r = 0; r < rows; r++, to += COLUMNS) {
		if (mask)
			memcpy(to, mask + r * keys + from, n);
		else
			memset(to, 1, n);
		for (int64_t i = 0; i < COLUMNS; i += 8, any |= eight)
			memcpy(&eight, to + i, sizeof eight);
	}
	return any != 0;
}

// weigh turns a row of scores into e^(score − top), where top is the greatest one so far, to which it scales the sums.
SIMD static void weigh(room *m, int64_t r, const uint8_t *may) {
	float *s = m->s + r * COLUMNS, *sums = m->sums + r * m->wide, top = m->top[r];
	v8 low = {0}, high;
	high = low += masked;
	for (int64_t i = 0; i < COLUMNS; i += 8) {
		b8 b;
		memcpy(&b, may + i, sizeof b);
		i8 ok = __builtin_convertvector(b, i8) != 0;
		v8 x = (v8)(((i8)load(s + i) & ok) | ((i8)low & ~ok));
		store(s + i, x);
		i8 more = x > high;
		high = (v8)(((i8)x & more) | ((i8)high & ~more));
	}
	for (int i = 0; i < 8; i++)
		top = high[i] > top ? high[i] : top;
	if (top > m->top[r]) {
		float scale = expf(m->top[r] - top);
		for (int64_t c = 0; c < m->wide; c++)
			sums[c] *= scale;
		m->total[r] *= scale;
		m->top[r] = top;
	}
	v8 all = {0};
	for (int64_t i = 0; i < COLUMNS; i += 8) {
		v8 e = exponent(load(s + i) - top);
		store(s + i, e);
		all += e;
	}
	m->total[r] += sum(all);
}

// attend computes rows queries of one head, from a token on.
static void attend(room *m, int64_t group, int64_t token, const float *q, int64_t rows, float *o) {
	const attention *a = m->a;
	const uint8_t *mask = a->mask ? a->mask + (group * a->length + token) * a->keys : NULL;
	uint8_t may[ROWS * COLUMNS];
	float scale = 1 / sqrtf((float)a->dim);
	memset(m->q, 0, ROWS * m->wide * sizeof *q);
	memset(m->sums, 0, ROWS * m->wide * sizeof *q);
	for (int64_t r = 0; r < ROWS; r++)
		m->top[r] = masked, m->total[r] = 0;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < a->dim; c++)
			m->q[r * m->wide + c] = scale * q[r * a->dim + c];
	for (int64_t b = 0; b < m->blocks; b++) {
		if (!allowed(m, mask, rows, b * COLUMNS, may))
			continue;
		int64_t block = b * COLUMNS * m->wide;
		m->times(m->q, m->wide, 1, m->k + block, m->s, ROWS, COLUMNS, a->dim, 0);
		for (int64_t r = 0; r < rows; r++)
			weigh(m, r, may + r * COLUMNS);
		m->times(m->s, COLUMNS, 1, m->v + block, m->sums, ROWS, m->wide, COLUMNS, 1);
	}
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < a->dim; c++)
			o[r * a->dim + c] = m->top[r] > masked ? m->sums[r * m->wide + c] / m->total[r] : 0;
}

typedef struct {
	const attention *a;
	int64_t parts;
	atomic_int failed;
} job;

static void heads(void *of, int64_t from, int64_t to) {
	job *j = of;
	const attention *a = j->a;
	room m = {.a = a, .times = small_product(), .wide = fill(a->dim), .blocks = (a->keys + COLUMNS - 1) / COLUMNS};
	int64_t all = m.blocks * COLUMNS * m.wide;
	float *memory;
	if (posix_memalign((void **)&memory, 64, (2 * all + 2 * ROWS * m.wide) * sizeof *memory)) {
		j->failed = 1;
		return;
	}
	m.k = memory, m.v = m.k + all, m.q = m.v + all, m.sums = m.q + ROWS * m.wide;
	int64_t each = (a->length + ROWS - 1) / ROWS, places = a->queries / a->length * each;
	for (int64_t i = from; i < to; i++) {
		int64_t head = i / j->parts, part = i % j->parts;
		if (part == 0 || i == from)
			pack(&m, a->k + head * a->keys * a->dim, a->v + head * a->keys * a->dim);
		for (int64_t p = part; p < places; p += j->parts) {
			int64_t token = p % each * ROWS, at = head * a->queries + p / each * a->length + token;
			int64_t rows = a->length - token < ROWS ? a->length - token : ROWS;
			attend(&m, head / a->heads, token, a->q + at * a->dim, rows, a->o + at * a->dim);
		}
	}
	free(memory);
}

int attention_run(const attention *a) {
	job j = {.a = a, .parts = a->groups * a->heads < FEW ? PARTS : 1};
	uint64_t mode = flush_denormals();
	int taken = team_take();
	team_loop(taken, heads, &j, a->groups * a->heads * j.parts, 1);
	team_leave(taken);
	restore_denormals(mode);
	return !j.failed;
}
