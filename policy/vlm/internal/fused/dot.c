#include "dot.h"

#include "narrow.h"

// A tile is COLS rows of w, each APART rows behind the one before, against ROWS rows of x, which stay in the cache.
// Memory is read in several places at a time, which is up to twice as fast as in one: a processor requests only some
// lines ahead in each. Accumulators are registers, PARTS for each product: several additions at a time hide what one
// takes. What a product is does not depend on the tile that it is in, but for PARTS. Where there is something ahead,
// it is requested into the second cache; the first one is too small for it beside x. With PARTS, what is NEXT numbers on
// is: a processor by itself requests too late, and stops at the end of a page.
enum { NEXT = 256 };

typedef void tile(const float *w, int64_t in, int64_t apart, const float *x, float *y, int64_t ld, const float *ahead);

// A set of instructions has a vector V of EACH rows of x: of_w has 8 numbers of w for each of them, and of_x those of
// rows p and q.
#define avx2_TARGET SIMD
#define avx2_V v8
#define avx2_EACH 1
#define avx2_of_w load

// Compilers would read the vector from memory again for each product, if it were not held in a register.
SIMD static inline v8 avx2_of_x(const float *p, const float *q) {
	v8 v = load(p);
	(void)q;
#if defined(__x86_64__)
	__asm__("" : "+x"(v));
#endif
	return v;
}

#if defined(__x86_64__)
#include <immintrin.h>

// A fold has the sums of eight vectors, each in the order of sum, for fewer instructions than one after the other.
SIMD static inline v8 avx2_fold(const v8 *s) {
	__m256 quads[4], pairs[2];
	for (int i = 0; i < 4; i++) {
		__m256 a = (__m256)s[i], b = (__m256)s[i + 4];
		quads[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
	}
	for (int i = 0; i < 2; i++) {
		__m256d a = (__m256d)quads[2 * i], b = (__m256d)quads[2 * i + 1];
		pairs[i] = _mm256_add_ps((__m256)_mm256_unpacklo_pd(a, b), (__m256)_mm256_unpackhi_pd(a, b));
	}
	return (v8)_mm256_add_ps(_mm256_shuffle_ps(pairs[0], pairs[1], 0x88), _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd));
}

#define avx512_TARGET AVX512
#define avx512_V v16
#define avx512_EACH 2

// Sums of the vectors' first halves stand before those of the second ones.
AVX512 static inline v16 avx512_fold(const v16 *s) {
	__m512 quads[4], pairs[2];
	for (int i = 0; i < 4; i++) {
		__m512 a = (__m512)s[i], b = (__m512)s[i + 4];
		quads[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
	}
	for (int i = 0; i < 2; i++) {
		__m512d a = (__m512d)quads[2 * i], b = (__m512d)quads[2 * i + 1];
		pairs[i] = _mm512_add_ps((__m512)_mm512_unpacklo_pd(a, b), (__m512)_mm512_unpackhi_pd(a, b));
	}
	__m512 all = _mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88), _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd));
	return (v16)_mm512_shuffle_f32x4(all, all, 0xd8);
}

AVX512 static inline v16 avx512_of_w(const float *p) {
	return (v16)_mm512_broadcast_f64x4(_mm256_loadu_pd((const double *)p));
}

AVX512 static inline v16 avx512_of_x(const float *p, const float *q) {
	__m512d low = _mm512_castpd256_pd512(_mm256_loadu_pd((const double *)p));
	return (v16)_mm512_insertf64x4(low, _mm256_loadu_pd((const double *)q), 1);
}
#else
static inline v8 avx2_fold(const v8 *s) {
	v8 all;
	for (int i = 0; i < 8; i++)
		all[i] = sum(s[i]);
	return all;
}
#endif

// rest adds the products behind the last whole vector. It is one function for all tiles, as the compiler may round it
// otherwise in each.
__attribute__((noinline)) SIMD static float rest(const float *w, const float *x, int64_t n, float z) {
	for (int64_t i = 0; i < n; i++)
		z += w[i] * x[i];
	return z;
}

#define UNROLL _Pragma("GCC unroll 24")
#define TILE(SET, COLS, ROWS, PARTS) \
	SET##_TARGET static void SET##_##COLS##x##ROWS##x##PARTS(const float *w, int64_t in, int64_t apart,                \
	            const float *x, float *y, int64_t ld, const float *ahead) {                                            \
		SET##_V s[COLS][(ROWS + SET##_EACH - 1) / SET##_EACH][PARTS] = {{{{0}}}};                                      \
		int64_t k = 0;                                                                                                 \
		for (; k + 8 * PARTS <= in; k += 8 * PARTS) {                                                                  \
			const float *next = PARTS > 1 ? w + NEXT : ahead;                                                          \
			if (next)                                                                                                  \
				UNROLL for (int c = 0; c < COLS; c++)                                                                  \
					UNROLL for (int l = 0; l < 8 * PARTS; l += 16)                                                     \
						__builtin_prefetch(next + c * apart * in + k + l, 0, 2);                                       \
			UNROLL for (int p = 0; p < PARTS; p++) {                                                                   \
				SET##_V a[COLS];                                                                                       \
				UNROLL for (int c = 0; c < COLS; c++)                                                                  \
					a[c] = SET##_of_w(w + c * apart * in + k + 8 * p);                                                 \
				UNROLL for (int r = 0; r < ROWS; r += SET##_EACH) {                                                    \
					const float *at = x + r * in + k + 8 * p;                                                          \
					SET##_V b = SET##_of_x(at, r + 1 < ROWS ? at + in : at);                                           \
					UNROLL for (int c = 0; c < COLS; c++)                                                              \
						s[c][r / SET##_EACH][p] += a[c] * b;                                                           \
				}                                                                                                      \
			}                                                                                                          \
		}                                                                                                              \
		enum { PAIRS = (ROWS + SET##_EACH - 1) / SET##_EACH, ALL = COLS * PAIRS };                                     \
		SET##_V all[(ALL + 7) / 8 * 8] = {{0}};                                                                        \
		UNROLL for (int i = 0; i < ALL; i++) {                                                                         \
			all[i] = s[i / PAIRS][i % PAIRS][0];                                                                       \
			UNROLL for (int p = 1; p < PARTS; p++)                                                                     \
				all[i] += s[i / PAIRS][i % PAIRS][p];                                                                  \
		}                                                                                                              \
		UNROLL for (int i = 0; i < ALL; i += 8) {                                                                      \
			float z[8 * SET##_EACH];                                                                                   \
			SET##_V sums = SET##_fold(all + i);                                                                        \
			memcpy(z, &sums, sizeof z);                                                                                \
			UNROLL for (int v = 0; v < 8 * SET##_EACH; v++) {                                                          \
				int64_t c = (i + v % 8) / PAIRS, r = (i + v % 8) % PAIRS * SET##_EACH + v / 8;                         \
				if (i + v % 8 >= ALL || r >= ROWS)                                                                     \
					continue;                                                                                          \
				y[r * ld + c * apart] = k < in ? rest(w + c * apart * in + k, x + r * in + k, in - k, z[v]) : z[v];    \
			}                                                                                                          \
		}                                                                                                              \
	}

#define TILES(SET, COLS, PARTS) \
	TILE(SET, COLS, 1, PARTS)   \
	TILE(SET, COLS, 2, PARTS)   \
	TILE(SET, COLS, 3, PARTS)
#define NAMES(SET, COLS, PARTS) SET##_##COLS##x1x##PARTS, SET##_##COLS##x2x##PARTS, SET##_##COLS##x3x##PARTS
TILES(avx2, 1, 4)
TILES(avx2, 4, 4)
TILES(avx2, 1, 1)
TILE(avx2, 1, 4, 1)
TILES(avx2, 3, 1)
TILE(avx2, 3, 4, 1)

// tiles are those for up to most rows of x, with cols rows of w and with one; ahead is for how many rows of w before
// their turn memory is requested.
typedef struct {
	int64_t cols, most, ahead;
	tile *wide[8], *one[8];
} tiles;

// few is for up to two rows of x, or what has their bits: it waits for memory alone.
static const tiles few = {4, 3, 0, {NAMES(avx2, 4, 4)}, {NAMES(avx2, 1, 4)}};
static const tiles many = {3, 4, 2, {NAMES(avx2, 3, 1), avx2_3x4x1}, {NAMES(avx2, 1, 1), avx2_1x4x1}};

#if defined(__x86_64__)
#define MORE(COLS)           \
	TILES(avx512, COLS, 1)   \
	TILE(avx512, COLS, 4, 1) \
	TILE(avx512, COLS, 5, 1) \
	TILE(avx512, COLS, 6, 1) \
	TILE(avx512, COLS, 7, 1) \
	TILE(avx512, COLS, 8, 1)
#define MORE_NAMES(COLS)                                                                                       \
	NAMES(avx512, COLS, 1), avx512_##COLS##x4x1, avx512_##COLS##x5x1, avx512_##COLS##x6x1, avx512_##COLS##x7x1, \
		avx512_##COLS##x8x1
MORE(1)
MORE(6)

// many512 has the bits of many.
static const tiles many512 = {6, 8, 2, {MORE_NAMES(6)}, {MORE_NAMES(1)}};

static const tiles *many_tiles(void) { return use_avx512() ? &many512 : &many; }
#else
static const tiles *many_tiles(void) { return &many; }
#endif

SIMD void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y,
                   int64_t ld, int64_t as) {
	const tiles *t = as <= 2 ? &few : many_tiles();
	int64_t apart = (to - from) / t->cols, end = from + apart;
	for (int64_t i = from; i < to; i = i + 1 == end ? from + t->cols * apart : i + 1)
		for (int64_t r = 0, rows; r < n; r += rows) {
			rows = n - r < t->most ? n - r : t->most;
			const float *ahead = t->ahead && r == 0 && i + t->ahead < end ? w + (i + t->ahead) * in : 0;
			(i < end ? t->wide : t->one)[rows - 1](w + i * in, in, apart, x + r * in, y + r * ld + i, ld, ahead);
		}
}
