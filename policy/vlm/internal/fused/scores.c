#include "scores.h"

#include <math.h>
#include <stdlib.h>

#include "dot.h"
#include "gemm.h"
#include "team.h"

// TOGETHER is how many tokens of the vocabulary have their logits computed at a time. It divides into the tiles of
// gemm.
enum { TOGETHER = 1536 };

// row is what is known of a row's logits so far: the greatest one, the sum of e^(z − top), that of z·e^(z − top), and
// the target's logit.
typedef struct {
	float top, sum, moment, own;
} row;

typedef struct {
	const scores *s;
	float *z;           // [n, count]: logits of the tokens from first on
	int64_t first, count;
	row *rows;
} part;

// widen adds a number to a row's sums, which are about another top then.
static void widen(row *r, float top) {
	float scale = expf(r->top - top);
	r->sum *= scale;
	r->moment *= scale;
	r->top = top;
}

// take_in adds n logits to a row, a multiple of 8; they are divided by the temperature.
SIMD static void take_in(row *r, float *z, int64_t n, float temperature) {
	v8 high = {0};
	high += -INFINITY;
	for (int64_t i = 0; i < n; i += 8) {
		v8 x = load(z + i) / temperature;
		store(z + i, x);
		i8 more = x > high;
		high = (v8)(((i8)x & more) | ((i8)high & ~more));
	}
	float top = r->top;
	for (int i = 0; i < 8; i++)
		top = high[i] > top ? high[i] : top;
	widen(r, top);
	v8 sums = {0}, moments = {0};
	for (int64_t i = 0; i < n; i += 8) {
		v8 x = load(z + i), e = exponent(x - top);
		sums += e;
		moments += x * e;
	}
	r->sum += sum(sums);
	r->moment += sum(moments);
}

static void take_rows(void *of, int64_t from, int64_t to) {
	part *p = of;
	int64_t whole = p->count & ~7;
	for (int64_t i = from; i < to; i++) {
		float *z = p->z + i * p->count, rest[8];
		row *r = p->rows + i;
		int64_t at = p->s->target[i] - p->first;
		if (at >= 0 && at < p->count)
			r->own = z[at] / p->s->temperature;
		if (whole)
			take_in(r, z, whole, p->s->temperature);
		if (whole == p->count)
			continue;
		for (int64_t k = 0; k < 8; k++) // what is missing is finite, and e to it 0
			rest[k] = whole + k < p->count ? z[whole + k] : -1e30f * fminf(p->s->temperature, 1);
		take_in(r, rest, 8, p->s->temperature);
	}
}

int scores_run(const scores *s) {
	part p = {.s = s, .z = malloc(s->n * TOGETHER * sizeof *p.z), .rows = malloc(s->n * sizeof *p.rows)};
	int made = p.z && p.rows;
	for (int64_t i = 0; made && i < s->n; i++)
		p.rows[i] = (row){.top = -INFINITY};
	matrix x = {s->x, s->hidden, 1};
	for (p.first = 0; made && p.first < s->vocabulary; p.first += TOGETHER) {
		p.count = s->vocabulary - p.first < TOGETHER ? s->vocabulary - p.first : TOGETHER;
		matrix w = {s->table + p.first * s->hidden, 1, s->hidden};
		made = gemm(x, w, p.z, s->n, p.count, s->hidden);
		uint64_t mode = flush_denormals();
		int taken = team_take();
		team_loop(taken, take_rows, &p, made ? s->n : 0, 8);
		team_leave(taken);
		restore_denormals(mode);
	}
	for (int64_t i = 0; made && i < s->n; i++) {
		row r = p.rows[i];
		float total = r.top + logf(r.sum);
		s->log_prob[i] = r.own - total;
		s->entropy[i] = total - r.moment / r.sum;
	}
	free(p.z);
	free(p.rows);
	return made;
}
