#include "dot.h"

// A tile is COLS rows of w, each APART rows behind the one before, against ROWS rows of x, which stay in the cache. Memory
// is read in several places at a time, which is up to twice as fast as in one: a processor requests only some lines ahead
// in each. Accumulators are registers, PARTS for each product: several additions at a time hide what one takes. What a
// product is does not depend on the tile that it is in, but for PARTS. Where there is something ahead, it is requested
// into the second cache; the first one is too small for it beside x.
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
				UNROLL for (int c = 0; c < COLS; c++)                                                                    \
					__builtin_prefetch(ahead + c * apart * in + k, 0, 2);                                                \
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

TILE(few1x1, 1, 1, 4)
TILE(few1x2, 1, 2, 4)
TILE(few1x3, 1, 3, 4)
TILE(few4x1, 4, 1, 4)
TILE(few4x2, 4, 2, 4)
TILE(few4x3, 4, 3, 4)
TILE(many1x1, 1, 1, 1)
TILE(many1x2, 1, 2, 1)
TILE(many1x3, 1, 3, 1)
TILE(many1x4, 1, 4, 1)
TILE(many3x1, 3, 1, 1)
TILE(many3x2, 3, 2, 1)
TILE(many3x3, 3, 3, 1)
TILE(many3x4, 3, 4, 1)

// tiles are those for up to most rows of x, with cols rows of w and with one; ahead is for how many rows of w before
// their turn memory is requested.
typedef struct {
	int64_t cols, most, ahead;
	tile *wide[4], *one[4];
} tiles;

// few is for up to two rows of x, or what has their bits: it waits for memory alone, and requests made no difference.
static const tiles few = {4, 3, 0, {few4x1, few4x2, few4x3}, {few1x1, few1x2, few1x3}};
static const tiles many = {
	3, 4, 2, {many3x1, many3x2, many3x3, many3x4}, {many1x1, many1x2, many1x3, many1x4}};

SIMD void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld,
                   int64_t as) {
	const tiles *t = as <= 2 ? &few : &many;
	int64_t apart = (to - from) / t->cols, end = from + apart;
	for (int64_t i = from; i < to; i = i + 1 == end ? from + t->cols * apart : i + 1)
		for (int64_t r = 0, rows; r < n; r += rows) {
			rows = n - r < t->most ? n - r : t->most;
			const float *ahead = t->ahead && r == 0 && i + t->ahead < end ? w + (i + t->ahead) * in : 0;
			(i < end ? t->wide : t->one)[rows - 1](w + i * in, in, apart, x + r * in, y + r * ld + i, ld, ahead);
		}
}
