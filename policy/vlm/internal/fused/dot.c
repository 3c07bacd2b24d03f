#include "dot.h"

#include "narrow.h"

// A tile is COLS rows of w, each APART rows behind the one before, against ROWS rows of x, which stay in
// the cache. Its accumulators are registers, PARTS for each product: several additions
// at a time hide what one takes. What a product is does not depend on the tile that it
// is in, but for PARTS. Where there is something ahead, a part of it is called into the
// second cache with each step; the first one is too small for it beside x.
typedef void tile(const float *w, int64_t in, int64_t apart, const float *x, float *y, int64_t ld, const float *ahead);

// held is v in a register: compilers would read it from memory again for each product.
SIMD static inline v8 held(v8 v) {
#if defined(__x86_64__)
	__asm__("" : "+x"(v));
#endif
	return v;
}

// rest adds the products behind the last whole vector. It is one function for all tiles, as the compiler may round it
// otherwise in each.
__attribute__((noinline)) SIMD static float rest(const float *w, const float *x, int64_t n, float z) {
	for (int64_t i = 0; i < n; i++)
		z += w[i] * x[i];
	return z;
}

#define UNROLL _Pragma("GCC unroll 8")
#define TILE(NAME, COLS, ROWS, PARTS)                                                                                    \
	SIMD static void NAME(const float *w, int64_t in, int64_t apart, const float *x, float *y, int64_t ld, const float *ahead) { \
		v8 s[COLS][ROWS][PARTS] = {{{{0}}}};                                                                             \
		int64_t k = 0;                                                                                                   \
		for (; k + 8 * PARTS <= in; k += 8 * PARTS) {                                                                    \
			if (ahead)                                                                                                   \
				for (int64_t l = COLS * k; l < COLS * (k + 8 * PARTS); l += LINE / (int64_t)sizeof *w)                   \
					__builtin_prefetch(ahead + l, 0, 2);                                                                 \
			UNROLL for (int p = 0; p < PARTS; p++) {                                                                     \
				v8 a[COLS];                                                                                              \
				UNROLL for (int c = 0; c < COLS; c++)                                                                    \
					a[c] = load(w + c * apart * in + k + 8 * p);                                                         \
				UNROLL for (int r = 0; r < ROWS; r++) {                                                                  \
					v8 b = held(load(x + r * in + k + 8 * p));                                                           \
					UNROLL for (int c = 0; c < COLS; c++)                                                                \
						s[c][r][p] += a[c] * b;                                                                          \
				}                                                                                                        \
			}                                                                                                            \
		}                                                                                                                \
		UNROLL for (int c = 0; c < COLS; c++)                                                                            \
			UNROLL for (int r = 0; r < ROWS; r++) {                                                                      \
				UNROLL for (int p = 1; p < PARTS; p++)                                                                   \
					s[c][r][0] += s[c][r][p];                                                                            \
				float z = sum(s[c][r][0]);                                                                               \
				y[r * ld + c * apart] = k < in ? rest(w + c * apart * in + k, x + r * in + k, in - k, z) : z;            \
			}                                                                                                            \
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
TILE(many3x1, 3, 1, 1)
TILE(many3x2, 3, 2, 1)
TILE(many3x3, 3, 3, 1)
TILE(many3x4, 3, 4, 1)

// AHEAD is how many rows of w are called for before their turn.
enum { AHEAD = 6 };

// few is for up to two rows of x, or what has their bits. Memory is read in several places at a time, which is up to
// twice as fast as in one: a processor requests only some lines ahead in each.
SIMD static void few(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld) {
	static tile *const one[] = {one1, one2, one3}, *const spread[] = {spread1, spread2, spread3};
	int64_t apart = (to - from) / SPREAD, end = from + apart;
	for (int64_t i = from; i < to; i = i + 1 == end ? from + SPREAD * apart : i + 1)
		for (int64_t r = 0, rows; r < n; r += rows) {
			rows = n - r < 3 ? n - r : 3;
			(i < end ? spread : one)[rows - 1](w + i * in, in, apart, x + r * in, y + r * ld + i, ld, 0);
		}
}

SIMD static void three(const float *w, int64_t in, const float *x, int64_t n, float *y, int64_t ld, const float *ahead) {
	for (; n >= 4; n -= 4, x += 4 * in, y += 4 * ld, ahead = 0)
		many3x4(w, in, 1, x, y, ld, ahead);
	if (n)
		(n == 1 ? many3x1 : n == 2 ? many3x2 : many3x3)(w, in, 1, x, y, ld, ahead);
}

SIMD void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld,
                   int64_t as) {
	if (n < 1)
		return;
	if (as <= 2) {
		few(w, in, from, to, x, n, y, ld);
		return;
	}
	int64_t i = from;
	for (; i + 3 <= to; i += 3)
		three(w + i * in, in, x, n, y + i, ld, i + AHEAD + 3 <= to ? w + (i + AHEAD) * in : 0);
	for (; i < to; i++)
		for (int64_t r = 0; r < n; r++)
			many1(w + i * in, in, 1, x + r * in, y + r * ld + i, ld, 0);
}
