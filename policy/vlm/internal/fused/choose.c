#include "choose.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "dot.h"
#include "team.h"

enum { TEMPERATURE, TOP_K, TOP_P, MIN_P };

// Both are those of package model.
enum { BISECTIONS = 36, WEIGHTLESS = 104 };

typedef uint32_t u8 __attribute__((vector_size(32)));

// row is a row of logits over the temperature, with e to the power of how far they are from the top. Both are filled up
// to whole vectors, by −Inf and 0.
typedef struct {
	float *z, *weight;
	int64_t length;
	float top;
} row;

SIMD static inline v8 pick(i8 which, v8 a, v8 b) { return (v8)(((i8)a & which) | ((i8)b & ~which)); }

// weigh sets the top and the weights, and returns their sum, which is NaN if a logit is NaN or +Inf.
SIMD static float weigh(row *r) {
	v8 high = (v8){0} - INFINITY, sums = {0};
	for (int64_t i = 0; i < r->length; i += 8) {
		v8 z = load(r->z + i);
		high = pick(z > high, z, high);
	}
	r->top = high[0];
	for (int k = 1; k < 8; k++)
		r->top = high[k] > r->top ? high[k] : r->top;
	for (int64_t i = 0; i < r->length; i += 8) {
		v8 weight = exponent(load(r->z + i) - r->top);
		store(r->weight + i, weight);
		sums += weight;
	}
	return sum(sums);
}

// enough reports whether the logits that are at least the threshold are as many as wanted, or their weights as much.
SIMD static int enough(const row *r, float threshold, float want, int many) {
	v8 sums = {0};
	for (int64_t i = 0; i < r->length; i += 8) {
		i8 is = load(r->z + i) >= threshold;
		sums += many ? __builtin_convertvector(-is, v8) : pick(is, load(r->weight + i), (v8){0});
	}
	return sum(sums) >= want;
}

// cut removes the weights of the logits below the largest threshold of which there are enough.
SIMD static void cut(row *r, float want, int many) {
	float low = r->top - WEIGHTLESS, high = r->top;
	int at_top = enough(r, high, want, many);
	for (int i = 0; i < BISECTIONS && !at_top; i++) {
		float middle = (low + high) * 0.5f;
		if (middle <= low || middle >= high)
			break;
		if (enough(r, middle, want, many))
			low = middle;
		else
			high = middle;
	}
	for (int64_t i = 0; i < r->length; i += 8)
		store(r->weight + i, pick(load(r->z + i) >= (at_top ? r->top : low), load(r->weight + i), (v8){0}));
}

SIMD static void restrict_to(const choice *c, row *r) {
	if (c->has & HAS_TOP_K)
		cut(r, c->params[TOP_K], 1);
	if (c->has & HAS_TOP_P) {
		v8 sums = {0};
		for (int64_t i = 0; i < r->length; i += 8)
			sums += load(r->weight + i);
		cut(r, c->params[TOP_P] * sum(sums), 0);
	}
	if (c->has & HAS_MIN_P)
		for (int64_t i = 0; i < r->length; i += 8) {
			v8 weight = load(r->weight + i);
			store(r->weight + i, pick(weight >= c->params[MIN_P], weight, (v8){0}));
		}
}

SIMD static inline u8 mix(u8 x) {
	x = (x ^ x >> 16) * 0x7feb352d;
	x = (x ^ x >> 15) * 0x846ca68b;
	return x ^ x >> 16;
}

// draw returns a token in proportion to the weights. Gumbel noise −log e, with e = −log(1 − v), is greatest together
// with a logit where e / weight is least. As e ≥ v, most tokens need no logarithm.
SIMD static int64_t draw(const row *r, const uint32_t *seed, uint32_t count) {
	double best = INFINITY;
	int64_t at = 0;
	u8 token = {0, 1, 2, 3, 4, 5, 6, 7};
	for (int64_t i = 0; i < r->length; i += 8, token += 8) {
		u8 hash = mix(mix((token * 0x9e3779b9 + count * 0x85ebca6b) ^ seed[0]) ^ seed[1]);
		v8 v = __builtin_convertvector(hash, v8) * (0.999999f / 4294967296);
		i8 perhaps = v <= load(r->weight + i) * (float)best;
		uint64_t any[4];
		memcpy(any, &perhaps, sizeof any);
		if (!(any[0] | any[1] | any[2] | any[3]))
			continue;
		for (int k = 0; k < 8; k++) {
			double e = -log1p(-fmin((hash[k] + 0.5) / 4294967296, 1 - 1. / (1 << 24))) / r->weight[i + k];
			if (e < best)
				best = e, at = i + k;
		}
	}
	return at;
}

static int64_t first_best(const row *r) {
	for (int64_t i = 0; i < r->length; i++)
		if (r->z[i] == r->top)
			return i;
	return 0;
}

SIMD static void choose(const choice *c, int64_t i, row *r) {
	const float *logits = c->logits + i * c->vocabulary;
	for (int64_t k = 0; k < r->length; k++)
		r->z[k] = k < c->vocabulary ? logits[k] / c->params[TEMPERATURE] : -INFINITY;
	float log_sum = logf(weigh(r));
	log_sum += r->top;
	for (int64_t k = 0; k < c->nevers; k++)
		if (c->never[k] >= 0 && c->never[k] < c->vocabulary)
			r->z[c->never[k]] = -INFINITY;
	if (c->nevers)
		weigh(r);
	int64_t id;
	if (c->has & HAS_FORCED && c->forced[i] >= 0 && c->forced[i] < c->vocabulary) {
		id = c->forced[i];
	} else if (c->has & HAS_GREEDY) {
		id = first_best(r);
	} else {
		restrict_to(c, r);
		id = draw(r, c->seeds + 2 * i, c->count[i]);
	}
	c->id[i] = (int32_t)id;
	c->log_prob[i] = logits[id] / c->params[TEMPERATURE] - log_sum;
}

typedef struct {
	const choice *c;
	atomic_int failed;
} job;

static void choose_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	row r = {.length = (j->c->vocabulary + 7) & ~(int64_t)7};
	r.z = malloc(2 * r.length * sizeof *r.z);
	if (!r.z) {
		j->failed = 1;
		return;
	}
	r.weight = r.z + r.length;
	for (int64_t i = from; i < to; i++)
		choose(j->c, i, &r);
	free(r.z);
}

int choice_run(const choice *c) {
	job j = {.c = c};
	uint64_t mode = flush_denormals();
	int taken = team_take();
	team_loop(taken, choose_share, &j, c->n, 1);
	team_leave(taken);
	restore_denormals(mode);
	return !j.failed;
}
