#include "block.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "abi.h"
#include "dot.h"
#include "narrow.h"
#include "rows.h"
#include "team.h"

// GRAIN is the least that a share of a product reads, in numbers: below it, handing
// out shares takes longer than it saves.
enum { GRAIN = 8192 };

// MANY is how many places a loop over heads should have.
enum { MANY = 8 };

static int64_t grain(int64_t in) { return in < GRAIN ? GRAIN / in : 1; }

// ready returns rows of x as the products of a weight read them: rounded ones are in memory, which has place for them.
static const void *ready(const weight *w, const float *x, int64_t n, rounded *memory) {
	if (w->type != TYPE_S8)
		return x;
	round_rows(x, n, w->in, memory);
	return memory;
}

// multiply is dot_rows for a weight, of ready rows.
static void multiply(const weight *w, int64_t from, int64_t to, const void *x, int64_t n, float *y, int64_t ld,
                     int64_t as) {
	if (w->type == TYPE_F32)
		dot_rows(w->data, w->in, from, to, x, n, y, ld, as);
	else
		dot_narrow(w, from, to, x, n, y, ld);
}

// unit is how many outputs of a weight are a place of a loop: whole tiles, or panels of packed weights, whose outputs
// share the cache's lines.
static int64_t unit_of(const weight *w) { return w->type == TYPE_F32 ? WHOLE_TILES : PANEL; }

// outputs_loop runs a loop over the outputs of a weight.
static void outputs_loop(int taken, work *f, void *of, const weight *w, int64_t n, int64_t grain) {
	int64_t unit = unit_of(w);
	team_loop(taken, f, of, (n + unit - 1) / unit, (grain + unit - 1) / unit);
}

// outputs turns the places of an outputs_loop into outputs.
static void outputs(const weight *w, int64_t n, int64_t *from, int64_t *to) {
	int64_t unit = unit_of(w);
	*from *= unit;
	*to = *to * unit < n ? *to * unit : n;
}

// state is what the loops of one run share. Its block has the live rows alone, one behind the other.
typedef struct {
	const block *b;
	const int64_t *live; // rows of the whole block
	float *n, *qkv, *attn, *mid, *up, *act;
	rounded *rounded;
	const void *ready; // rows for the next product
	int64_t wide;       // of a row of qkv
	int64_t lines;      // rows of the cache
	int64_t together;   // heads that are attended at a time
	_Atomic int failed; // for want of memory
} state;

// exp_all sets x to exp(x − top), and returns total and the sums of that.
SIMD static v8 exp_all(float *x, int64_t n, float top, v8 total) {
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		v8 e = exponent(load(x + i) - top);
		store(x + i, e);
		total += e;
	}
	float rest[8] = {0};
	if (i < n) {
		memcpy(rest, x + i, (n - i) * sizeof *x);
		store(rest, exponent(load(rest) - top));
		memcpy(x + i, rest, (n - i) * sizeof *x);
		for (int64_t k = n - i; k < 8; k++)
			rest[k] = 0;
	}
	return total + load(rest);
}

static void project_qkv(void *of, int64_t from, int64_t to) {
	state *s = of;
	outputs(&s->b->qkv, s->wide, &from, &to);
	multiply(&s->b->qkv, from, to, s->ready, s->b->rows, s->qkv, s->wide, s->lines);
}

// store_row finishes the row's q, k and v, and puts k and v into the cache.
SIMD static void store_row(state *s, int64_t row) {
	const block *b = s->b;
	int64_t half = b->dim / 2, of = s->live[row];
	float *x = s->qkv + row * s->wide;
	if (b->qkv_b)
		add(x, b->qkv_b, s->wide);
	head_set heads = {b->heads, b->kv, b->dim, b->eps, b->q_norm, b->k_norm};
	place(&heads, x, b->cos + row * half, b->sin + row * half);
	x += b->heads * b->dim;
	for (int64_t h = 0; h < b->kv; h++) {
		int64_t slot = ((of / b->each * b->kv + h) * b->recent.length + b->at[of * b->apart]) * b->dim;
		memcpy(b->recent.k + slot, x + h * b->dim, b->dim * sizeof *x);
		memcpy(b->recent.v + slot, x + (b->kv + h) * b->dim, b->dim * sizeof *x);
	}
}

// masked is the score of a slot that is not the row's. It is finite, as in the graph,
// so that a row which may see nothing stays finite, too.
static const float masked = -1e9f;

// hide scales the scores of a stretch's first n slots, takes out those of slots that are not the
// row's, and returns the greatest of the others and top.
SIMD static float hide(const block *b, const stretch *c, int64_t row, int64_t n, float *scores, float top) {
	const uint8_t *allow = c->allow + row * c->length;
	float scale = 1 / sqrtf((float)b->dim);
	for (int64_t i = 0; i < n; i++)
		scores[i] = allow[i] ? scores[i] * scale : masked;
	v8 high = {0};
	high += top;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		v8 x = load(scores + i);
		i8 more = x > high;
		high = (v8)(((i8)x & more) | ((i8)high & ~more));
	}
	for (int k = 0; k < 8; k++)
		top = high[k] > top ? high[k] : top;
	for (; i < n; i++)
		top = scores[i] > top ? scores[i] : top;
	return top;
}

// used is how many slots of a stretch there are up to the last one that the row may see.
static int64_t used(const stretch *c, int64_t row) {
	const uint8_t *allow = c->allow + row * c->length;
	int64_t n = c->length;
	while (n > 0 && !allow[n - 1])
		n--;
	return n;
}

// whole is n rounded up to vectors, of a stretch.
static int64_t whole(const stretch *c, int64_t n) { return n + 7 < c->length ? (n + 7) & ~7 : c->length; }

// BLEND adds values to VECTORS vectors each of HEADS heads, by their weights.
#define BLEND(NAME, TARGET, V, VECTORS, HEADS)                                                               \
	TARGET static void NAME(const float *v, int64_t dim, const float *weight, int64_t slots, int64_t n, float *y) { \
		enum { LANES = sizeof(V) / sizeof(float) };                                                          \
		V s[HEADS][VECTORS];                                                                                 \
		for (int h = 0; h < HEADS; h++)                                                                      \
			memcpy(s[h], y + h * dim, sizeof s[h]);                                                          \
		for (int64_t i = 0; i < n; i++, v += dim) {                                                          \
			int any = 0;                                                                                     \
			for (int h = 0; h < HEADS; h++)                                                                  \
				any |= weight[h * slots + i] != 0;                                                           \
			if (!any) /* what is behind may be no number */                                                  \
				continue;                                                                                    \
			for (int j = 0; j < VECTORS; j++) {                                                              \
				V x;                                                                                         \
				memcpy(&x, v + j * LANES, sizeof x);                                                         \
				for (int h = 0; h < HEADS; h++)                                                              \
					s[h][j] += weight[h * slots + i] * x;                                                    \
			}                                                                                                \
		}                                                                                                    \
		for (int h = 0; h < HEADS; h++)                                                                      \
			memcpy(y + h * dim, s[h], sizeof s[h]);                                                          \
	}

typedef void blend_some(const float *v, int64_t dim, const float *weight, int64_t slots, int64_t n, float *y);

// blends are those of up to most heads, for so many numbers of each.
typedef struct {
	int64_t numbers, most;
	blend_some *of[3];
} blends;

BLEND(avx2_8x1, SIMD, v8, 8, 1)
BLEND(avx2_4x1, SIMD, v8, 4, 1)
BLEND(avx2_1x1, SIMD, v8, 1, 1)
BLEND(one, SIMD, float, 1, 1)
static const blends blends_256[] = {{64, 1, {avx2_8x1}}, {32, 1, {avx2_4x1}}, {8, 1, {avx2_1x1}}, {1, 1, {one}}};
#if defined(__x86_64__)
BLEND(avx512_4x1, AVX512, v16, 4, 1)
BLEND(avx512_4x2, AVX512, v16, 4, 2)
BLEND(avx512_4x3, AVX512, v16, 4, 3)
BLEND(avx512_2x1, AVX512, v16, 2, 1)
BLEND(avx512_2x2, AVX512, v16, 2, 2)
BLEND(avx512_2x3, AVX512, v16, 2, 3)
static const blends blends_512[] = {
	{64, 3, {avx512_4x1, avx512_4x2, avx512_4x3}},
	{32, 3, {avx512_2x1, avx512_2x2, avx512_2x3}},
	{8, 1, {avx2_1x1}},
	{1, 1, {one}},
};
#endif

// blend adds the values of a stretch [n, dim] to y [heads, dim], by weights whose rows are slots apart. Heads are read
// for together where there are registers enough, and several sums at a time hide what one takes.
static void blend(const float *v, int64_t dim, const float *weight, int64_t slots, int64_t n, int64_t heads, float *y) {
	const blends *some = blends_256;
#if defined(__x86_64__)
	if (use_avx512())
		some = blends_512;
#endif
	for (int64_t k = 0; k < dim; k += some->numbers) {
		while (k + some->numbers > dim)
			some++;
		for (int64_t h = 0, many; h < heads; h += many) {
			many = heads - h < some->most ? heads - h : some->most;
			some->of[many - 1](v + k, dim, weight + h * slots, slots, n, y + h * dim + k);
		}
	}
}

// attend has one place for s->together heads of a row, which share a key head.
SIMD static void attend(void *of, int64_t from, int64_t to) {
	state *s = of;
	const block *b = s->b;
	int64_t dim = b->dim, n = s->together, past = b->past.length, recent = b->recent.length, slots = past + recent;
	float *scores = malloc(n * slots * sizeof *scores);
	if (!scores) {
		s->failed = 1;
		return;
	}
	for (int64_t i = from; i < to; i++) {
		int64_t row = i * n / b->heads, head = i * n % b->heads, of = s->live[row], line = of / b->each;
		int64_t kv = line * b->kv + head / (b->heads / b->kv);
		const float *q = s->qkv + row * s->wide + head * dim;
		float *y = s->attn + i * n * dim, *weight = scores;
		int64_t old = used(&b->past, line), new = used(&b->recent, of);
		dot_rows(b->past.k + kv * past * dim, dim, 0, old, q, n, weight, slots, n);
		dot_rows(b->recent.k + kv * recent * dim, dim, 0, new, q, n, weight + past, slots, n);
		old = whole(&b->past, old), new = whole(&b->recent, new); // slots behind these have weight 0
		memset(y, 0, n * dim * sizeof *y);
		float scale[n];
		for (int64_t h = 0; h < n; h++, weight += slots) {
			float top = hide(b, &b->past, line, old, weight, -INFINITY);
			top = hide(b, &b->recent, of, new, weight + past, top);
			v8 total = exp_all(weight, old, top, (v8){0});
			scale[h] = 1 / sum(exp_all(weight + past, new, top, total));
		}
		blend(b->past.v + kv * past * dim, dim, scores, slots, old, n, y);
		blend(b->recent.v + kv * recent * dim, dim, scores + past, slots, new, n, y);
		for (int64_t k = 0; k < n * dim; k++)
			y[k] *= scale[k / dim];
	}
	free(scores);
}

// residual is a product with places [from, to) of each row's output, to which bias and
// x are added.
SIMD static void residual(const state *s, const weight *w, const float *bias, const float *x, float *y, int64_t from,
                          int64_t to) {
	const block *b = s->b;
	outputs(w, b->hidden, &from, &to);
	multiply(w, from, to, s->ready, b->rows, y, b->hidden, s->lines);
	for (int64_t row = 0; row < b->rows; row++) {
		if (bias)
			add(y + row * b->hidden + from, bias + from, to - from);
		add(y + row * b->hidden + from, x + row * b->hidden + from, to - from);
	}
}

static void project_out(void *of, int64_t from, int64_t to) {
	state *s = of;
	const block *b = s->b;
	residual(s, &b->out, b->out_b, b->x, s->mid, from, to);
}

static void project_down(void *of, int64_t from, int64_t to) {
	state *s = of;
	const block *b = s->b;
	residual(s, &b->down, b->down_b, s->mid, b->y, from, to);
}

// project_up is silu(gate)·up: the rows of the gate stand before those of up.
SIMD static void project_up(void *of, int64_t from, int64_t to) {
	state *s = of;
	const block *b = s->b;
	int64_t ff = b->ff;
	outputs(&b->up, ff, &from, &to);
	multiply(&b->up, from, to, s->ready, b->rows, s->up, 2 * ff, s->lines);
	multiply(&b->up, ff + from, ff + to, s->ready, b->rows, s->up, 2 * ff, s->lines);
	for (int64_t row = 0; row < b->rows; row++) {
		float *gate = s->up + row * 2 * ff, *up = gate + ff;
		if (b->up_b) {
			add(gate + from, b->up_b + from, to - from);
			add(up + from, b->up_b + ff + from, to - from);
		}
		silu_times(gate + from, up + from, to - from, s->act + row * ff + from);
	}
}

static void norms(const block *b, const float *x, const float *w, float *y) {
	for (int64_t row = 0; row < b->rows; row++)
		norm(x + row * b->hidden, w, 0, b->eps, b->hidden, y + row * b->hidden);
}

static const char no_memory[] = "vagen: a block's step finds no memory";

// live_rows lists the rows that may see their own token. The outputs of others are not read: their responses have
// ended.
static int64_t live_rows(const block *b, int64_t *live) {
	int64_t n = 0;
	for (int64_t row = 0; row < b->rows; row++) {
		int64_t at = b->at[row * b->apart];
		if (at >= 0 && at < b->recent.length && b->recent.allow[row * b->recent.length + at])
			live[n++] = row;
	}
	return n;
}

// pick copies n rows of x, of which at are the numbers, and returns them.
static const float *pick(const float *x, const int64_t *at, int64_t n, int64_t wide, float **memory) {
	float *to = *memory;
	for (int64_t i = 0; i < n; i++)
		memcpy(to + i * wide, x + at[i] * wide, wide * sizeof *x);
	*memory += n * wide;
	return to;
}

static void run_live(state *s) {
	const block *b = s->b;
	int taken = team_take();
	norms(b, b->x, b->norm1, s->n);
	s->ready = ready(&b->qkv, s->n, b->rows, s->rounded);
	outputs_loop(taken, project_qkv, s, &b->qkv, s->wide, grain(b->hidden));
	for (int64_t row = 0; row < b->rows; row++)
		store_row(s, row);
	team_loop(taken, attend, s, b->rows * b->heads / s->together, 1);
	s->ready = ready(&b->out, s->attn, b->rows, s->rounded);
	outputs_loop(taken, project_out, s, &b->out, b->hidden, grain(b->heads * b->dim));
	norms(b, s->mid, b->norm2, s->n);
	s->ready = ready(&b->up, s->n, b->rows, s->rounded);
	outputs_loop(taken, project_up, s, &b->up, b->ff, grain(2 * b->hidden));
	s->ready = ready(&b->down, s->act, b->rows, s->rounded);
	outputs_loop(taken, project_down, s, &b->down, b->hidden, grain(b->ff));
	team_leave(taken);
}

const char *block_run(const block *whole) {
	block b = *whole;
	int64_t half = b.dim / 2, live[b.rows];
	state s = {.b = &b, .live = live, .wide = (b.heads + 2 * b.kv) * b.dim, .lines = b.rows / b.each};
	b.rows = live_rows(whole, live);
	memcpy(b.y, b.x, whole->rows * b.hidden * sizeof *b.y);
	if (!b.rows)
		return 0;
	int64_t each[] = {b.hidden, s.wide, b.heads * b.dim, b.hidden, 2 * b.ff, b.ff, b.hidden};
	float **to[] = {&s.n, &s.qkv, &s.attn, &s.mid, &s.up, &s.act, &b.y};
	// Heads that share a key head also share the reading of it, if there are places enough
	// for all threads without.
	s.together = s.lines * b.kv >= MANY ? b.heads / b.kv : 1;
	enum { PARTS = sizeof each / sizeof *each };
	int64_t all = b.hidden + 2 * half;
	for (int i = 0; i < PARTS; i++)
		all += each[i];
	float *memory, *at;
	int64_t widest = b.up.in > b.down.in ? b.up.in : b.down.in;
	if (b.out.in > widest)
		widest = b.out.in;
	if (posix_memalign((void **)&memory, LINE, (all * sizeof *memory + blocks(widest) * sizeof(rounded)) * b.rows))
		return no_memory;
	at = memory;
	for (int i = 0; i < PARTS; at += each[i++] * b.rows)
		*to[i] = at;
	b.x = pick(b.x, live, b.rows, b.hidden, &at);
	b.cos = pick(b.cos, live, b.rows, half, &at), b.sin = pick(b.sin, live, b.rows, half, &at);
	s.rounded = (rounded *)at;

	uint64_t mode = flush_denormals();
	run_live(&s);
	restore_denormals(mode);
	for (int64_t i = 0; i < b.rows; i++)
		memcpy(whole->y + live[i] * b.hidden, b.y + i * b.hidden, b.hidden * sizeof *b.y);
	free(memory);
	return s.failed ? no_memory : 0;
}

typedef struct {
	const void *x;
	const weight *w;
	float *y;
	int64_t rows, out, as;
} product_job;

static void product_share(void *of, int64_t from, int64_t to) {
	product_job *p = of;
	outputs(p->w, p->out, &from, &to);
	multiply(p->w, from, to, p->x, p->rows, p->y, p->out, p->as);
}

int product(const float *x, const weight *w, float *y, int64_t rows, int64_t out, int64_t as) {
	rounded *memory = w->type == TYPE_S8 ? malloc(rows * blocks(w->in) * sizeof *memory) : 0;
	if (w->type == TYPE_S8 && !memory)
		return 0;
	uint64_t mode = flush_denormals();
	product_job p = {ready(w, x, rows, memory), w, y, rows, out, as};
	int taken = team_take();
	outputs_loop(taken, product_share, &p, w, out, grain(w->in));
	team_leave(taken);
	restore_denormals(mode);
	free(memory);
	return 1;
}
