#include "dot.h"

// A tile is COLS rows of w, each APART rows behind the one before, against ROWS rows of x, which stay in
// the cache. Its accumulators are registers, PARTS for each product: several additions
// at a time hide what one takes. What a product is does not depend on the tile that it
// is in, but for PARTS. Where there is something ahead, a part of it is called into the
// second cache with each step; the first one is too small for it beside x.
#define TILE(NAME, COLS, ROWS, PARTS)                                                                                             \
	SIMD static void NAME(const float *w, int64_t in, int64_t apart, const float *x, float *y, int64_t ld, const float *ahead) {   \
		v8 s[COLS][ROWS][PARTS] = {{{{0}}}};                                                                                      \
		int64_t k = 0;                                                                                                            \
		for (; k + 8 * PARTS <= in; k += 8 * PARTS) {                                                                             \
			if (ahead)                                                                                                            \
				__builtin_prefetch(ahead + COLS * k, 0, 2);                                                                       \
			for (int p = 0; p < PARTS; p++) {                                                                                     \
				v8 a[COLS];                                                                                                       \
				for (int c = 0; c < COLS; c++)                                                                                    \
					a[c] = load(w + c * apart * in + k + 8 * p);                                                                          \
				for (int r = 0; r < ROWS; r++) {                                                                                  \
					v8 b = load(x + r * in + k + 8 * p);                                                                          \
					for (int c = 0; c < COLS; c++)                                                                                \
						s[c][r][p] += a[c] * b;                                                                                   \
				}                                                                                                                 \
			}                                                                                                                     \
		}                                                                                                                         \
		for (int c = 0; c < COLS; c++)                                                                                            \
			for (int r = 0; r < ROWS; r++) {                                                                                      \
				for (int p = 1; p < PARTS; p++)                                                                                   \
					s[c][r][0] += s[c][r][p];                                                                                     \
				float z = sum(s[c][r][0]);                                                                                        \
				for (int64_t l = k; l < in; l++)                                                                                  \
					z += w[c * apart * in + l] * x[r * in + l];                                                                           \
				y[r * ld + c * apart] = z;                                                                                                \
			}                                                                                                                     \
	}

// SPREAD is how many places of memory are read at a time where few rows are multiplied.
enum { SPREAD = 4 };

TILE(one1, 1, 1, 4)
TILE(one2, 1, 2, 4)
TILE(one3, 1, 3, 4)
TILE(spread1, SPREAD, 1, 4)
TILE(spread2, SPREAD, 2, 4)
TILE(spread3, SPREAD, 3, 4)
TILE(many1, 1, 1, 1)
TILE(many2x1, 2, 1, 1)
TILE(many2x2, 2, 2, 1)
TILE(many2x3, 2, 3, 1)
TILE(many2x4, 2, 4, 1)

// AHEAD is how many rows of w are called for before their turn.
enum { AHEAD = 4 };

// few is for up to two rows of x, or what has their bits. Memory is read in several places at a time, which is up to
// twice as fast as in one: a processor requests only some lines ahead in each. Where vectors do not fill a sum, the
// compiler may round its end otherwise in another tile.
SIMD static void few(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld,
                     int64_t as) {
	int64_t most = in % 32 ? as : 3, apart = in % 32 ? 0 : (to - from) / SPREAD;
	for (int64_t i = from; i < from + apart; i++)
		for (int64_t r = 0, rows; r < n; r += rows) {
			rows = n - r < most ? n - r : most;
			(rows == 1 ? spread1 : rows == 2 ? spread2 : spread3)(w + i * in, in, apart, x + r * in, y + r * ld + i, ld, 0);
		}
	for (int64_t i = from + SPREAD * apart; i < to; i++)
		for (int64_t r = 0, rows; r < n; r += rows) {
			rows = n - r < most ? n - r : most;
			(rows == 1 ? one1 : rows == 2 ? one2 : one3)(w + i * in, in, 1, x + r * in, y + r * ld + i, ld, 0);
		}
}

SIMD static void pair(const float *w, int64_t in, const float *x, int64_t n, float *y, int64_t ld, const float *ahead) {
	for (; n >= 4; n -= 4, x += 4 * in, y += 4 * ld, ahead = 0)
		many2x4(w, in, 1, x, y, ld, ahead);
	if (n)
		(n == 1 ? many2x1 : n == 2 ? many2x2 : many2x3)(w, in, 1, x, y, ld, ahead);
}

SIMD void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld,
                   int64_t as) {
	if (n < 1)
		return;
	if (as <= 2) {
		few(w, in, from, to, x, n, y, ld, as);
		return;
	}
	int64_t i = from;
	for (; i + 2 <= to; i += 2)
		pair(w + i * in, in, x, n, y + i, ld, i + AHEAD + 2 <= to ? w + (i + AHEAD) * in : 0);
	for (; i < to; i++)
		for (int64_t r = 0; r < n; r++)
			many1(w + i * in, in, 1, x + r * in, y + r * ld + i, ld, 0);
}
