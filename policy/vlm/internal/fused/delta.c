#include <math.h>

#include "block.h"
#include "dot.h"
#include "team.h"

// GRAIN is the least that a share reads, in numbers.
enum { GRAIN = 8192 };

// STRIP updates VECTORS·8 columns of a head's state s [key, value] and sets those of o: it reads them once for the
// products with k and q, and once more, from the cache, to write them.
#define STRIP(NAME, VECTORS)                                                                        \
	SIMD static void NAME(const delta *d, int64_t at, float *s, int64_t column, float decay, float qk) { \
		const float *q = d->q + at * d->key, *k = d->k + at * d->key;                               \
		int64_t value = d->value;                                                                   \
		float *from = s + column;                                                                   \
		v8 had[VECTORS] = {{0}}, read[VECTORS] = {{0}};                                             \
		for (int64_t i = 0; i < d->key; i++)                                                        \
			for (int j = 0; j < VECTORS; j++) {                                                     \
				v8 x = load(from + i * value + 8 * j);                                              \
				had[j] += k[i] * x;                                                                 \
				read[j] += q[i] * x;                                                                \
			}                                                                                       \
		for (int j = 0; j < VECTORS; j++) {                                                         \
			int64_t to = at * value + column + 8 * j;                                               \
			had[j] = d->beta[at] * (load(d->v + to) - decay * had[j]);                              \
			store(d->o + to, decay * read[j] + qk * had[j]);                                        \
		}                                                                                           \
		if (!d->live[at / d->heads])                                                                \
			return;                                                                                 \
		for (int64_t i = 0; i < d->key; i++)                                                        \
			for (int j = 0; j < VECTORS; j++) {                                                     \
				float *x = from + i * value + 8 * j;                                                \
				store(x, decay * load(x) + k[i] * had[j]);                                          \
			}                                                                                       \
	}

STRIP(strip4, 4)
STRIP(strip1, 1)

// single is STRIP for one column.
static void single(const delta *d, int64_t at, float *s, int64_t column, float decay, float qk) {
	const float *q = d->q + at * d->key, *k = d->k + at * d->key;
	float had = 0, read = 0;
	for (int64_t i = 0; i < d->key; i++) {
		had += k[i] * s[i * d->value + column];
		read += q[i] * s[i * d->value + column];
	}
	int64_t to = at * d->value + column;
	had = d->beta[at] * (d->v[to] - decay * had);
	d->o[to] = decay * read + qk * had;
	for (int64_t i = 0; d->live[at / d->heads] && i < d->key; i++)
		s[i * d->value + column] = decay * s[i * d->value + column] + k[i] * had;
}

static void heads(void *of, int64_t from, int64_t to) {
	const delta *d = of;
	for (int64_t at = from; at < to; at++) {
		float *s = d->state + at * d->key * d->value, decay = expf(d->g[at]), qk = 0;
		for (int64_t i = 0; i < d->key; i++)
			qk += d->q[at * d->key + i] * d->k[at * d->key + i];
		int64_t column = 0;
		for (; column + 32 <= d->value; column += 32)
			strip4(d, at, s, column, decay, qk);
		for (; column + 8 <= d->value; column += 8)
			strip1(d, at, s, column, decay, qk);
		for (; column < d->value; column++)
			single(d, at, s, column, decay, qk);
	}
}

void delta_run(const delta *d) {
	int64_t size = d->key * d->value;
	uint64_t mode = flush_denormals();
	int taken = team_take();
	team_loop(taken, heads, (void *)d, d->rows * d->heads, size < GRAIN ? GRAIN / size : 1);
	team_leave(taken);
	restore_denormals(mode);
}
