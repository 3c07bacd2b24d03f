#include "narrow.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "dot.h"

// tile multiplies some units of a panel, from w on, by some rows of x, in float32 or rounded.
typedef void tile(const void *w, int64_t in, const void *x, float *y);

// MOST is the largest number of rows of a tile. Weights are called for AHEAD bytes before their turn, line by line.
enum { MOST = 8, AHEAD = 4096 };

#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,fma")))
#define V __m512
#define WIDTH 16
#define WIDE(p) \
	_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16))
#define SPLAT _mm512_set1_ps
#define FMA _mm512_fmadd_ps
// VNNI multiplies by numbers without a sign: weights have 128 added, which blocks' starts take back. GCC's own
// function for it moves registers for each product.
__attribute__((target("avx512f,avx512vnni"))) static inline __m512i dot512(__m512i s, __m512i a, __m512i b) {
	__asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
	return s;
}
#define TARGET8 __attribute__((target("avx512f,avx512vnni")))
#define I8 __m512i
#define WIDTH8 16
#define LOAD8(p) _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128))
#define SPLAT8 _mm512_set1_epi32
#define START8 _mm512_set1_epi32
#define DOT8 dot512
#define ADD8(y, s, scale, more)                                                     \
	_mm512_storeu_ps(y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(s), _mm512_set1_ps(scale), \
	                                    more ? _mm512_loadu_ps(y) : _mm512_setzero_ps()))
#include "tile.h"

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define V __m256
#define WIDTH 8
#define WIDE(p) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
#define SPLAT _mm256_set1_ps
#define FMA _mm256_fmadd_ps
// maddubs multiplies by numbers without a sign, too: here magnitudes of weights, whose signs go to x. Sums of two are
// at most 2·127², which 16 bits hold.
#define TARGET8 TARGET
#define I8 __m256i
#define WIDTH8 8
#define LOAD8(p) _mm256_loadu_si256((const __m256i *)(p))
#define SPLAT8 _mm256_set1_epi32
#define START8(start) _mm256_setzero_si256()
#define DOT8(s, a, b)                                                                                        \
	_mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)), \
	                                      _mm256_set1_epi16(1)))
#define ADD8(y, s, scale, more)                                                     \
	_mm256_storeu_ps(y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), _mm256_set1_ps(scale), \
	                                    more ? _mm256_loadu_ps(y) : _mm256_setzero_ps()))
#include "tile.h"
#else
static float from_bf16(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static int32_t dot4(int32_t s, int32_t a, int32_t b) {
	int8_t p[QUAD], q[QUAD];
	memcpy(p, &a, QUAD);
	memcpy(q, &b, QUAD);
	for (int i = 0; i < QUAD; i++)
		s += p[i] * q[i];
	return s;
}

#define NAME(x) plain_##x
#define TARGET
#define V float
#define WIDTH 1
#define WIDE(p) from_bf16(*(p))
#define SPLAT(x) (x)
#define FMA(a, b, c) ((c) + (a) * (b))
#define TARGET8
#define I8 int32_t
#define WIDTH8 1
#define LOAD8(p) (*(p))
#define SPLAT8(x) (x)
#define START8(start) 0
#define DOT8 dot4
#define ADD8(y, s, scale, more) (*(y) = (s) * (scale) + (more ? *(y) : 0))
#include "tile.h"
#endif

// tiles are those of a type and of this processor for up to most rows, of some units of a panel: all of it if the sums
// fit into the registers, so that weights are read in long runs.
typedef struct {
	tile *const *of;
	int64_t units;
	int most;
} tiles;

static _Atomic int avx512 = 1;

int allow_avx512(int allow) { return atomic_exchange(&avx512, allow); }

int use_avx512(void) {
#if defined(__x86_64__)
	return avx512 && __builtin_cpu_supports("avx512f");
#else
	return 0;
#endif
}

#define CHOOSE(SET, TYPE, UNITS, MOST) ((tiles){SET##_##TYPE##_##UNITS, UNITS, MOST})

// choose returns the tiles for n rows.
static tiles choose(int32_t type, int64_t n) {
#if defined(__x86_64__)
	if (type == TYPE_S8 && use_avx512() && __builtin_cpu_supports("avx512vnni"))
		return CHOOSE(avx512, int8, 4, 6);
	if (type == TYPE_S8)
		return n == 1 ? CHOOSE(avx2, int8, 4, 1) : n == 2 ? CHOOSE(avx2, int8, 2, 2) : CHOOSE(avx2, int8, 1, 4);
	if (use_avx512())
		return CHOOSE(avx512, bf16, 4, MOST);
	return n == 1 ? CHOOSE(avx2, bf16, 4, 1) : n == 2 ? CHOOSE(avx2, bf16, 2, 2) : CHOOSE(avx2, bf16, 1, 6);
#else
	return type == TYPE_S8 ? CHOOSE(plain, int8, 1, 4) : CHOOSE(plain, bf16, 1, 4);
#endif
}

// round_block rounds up to BLOCK numbers to multiples of a scale, the largest magnitude / 127. What is not a number, or
// infinite, leaves a scale that is not a number.
SIMD static void round_block(const float *x, int64_t n, rounded *to) {
	const v8 shift = (v8){0} + 12582912.0f; // adding 1.5·2²³ rounds to whole numbers
	float all[BLOCK] = {0};
	int8_t q[BLOCK];
	memcpy(all, x, n * sizeof *x);
	v8 high = {0}, sums = {0};
	for (int i = 0; i < BLOCK; i += 8) {
		v8 size = (v8)((i8)load(all + i) & 0x7fffffff);
		i8 more = size > high;
		high = (v8)(((i8)size & more) | ((i8)high & ~more));
		sums += size;
	}
	float most = 0, bad = sum(sums - sums);
	for (int k = 0; k < 8; k++)
		most = high[k] > most ? high[k] : most;
	float times = most > 0 ? 127 / most : 0;
	i8 total = {0};
	for (int i = 0; i < BLOCK; i += 8) {
		i8 whole = (i8)(load(all + i) * times + shift) - (i8)shift;
		total += whole;
		for (int k = 0; k < 8; k++)
			q[i + k] = (int8_t)whole[k];
	}
	to->scale = most / 127 + bad;
	to->start = 0;
	for (int k = 0; k < 8; k++)
		to->start -= 128 * total[k];
	memcpy(to->x, q, sizeof q);
}

void round_rows(const float *x, int64_t n, int64_t in, rounded *to) {
	for (; n > 0; n--)
		for (int64_t k = 0; k < in; k += BLOCK, to++) {
			int64_t many = in - k < BLOCK ? in - k : BLOCK;
			round_block(x, many, to);
			x += many;
		}
}

void dot_narrow(const weight *w, int64_t from, int64_t to, const void *x, int64_t n, float *y, int64_t ld) {
	tiles t = choose(w->type, n);
	int64_t outputs = t.units * UNIT, size = w->type == TYPE_S8 ? 1 : 2, in = w->in;
	int64_t panel = PANEL * size * (w->type == TYPE_S8 ? in + SCALES : in);
	int64_t each = w->type == TYPE_S8 ? blocks(in) * sizeof(rounded) : in * sizeof(float);
	for (int64_t at = from / outputs * outputs; at < to; at += outputs) {
		const char *data = (const char *)w->data + at / PANEL * panel;
		const float *scales = w->type == TYPE_S8 ? (const float *)(data + in * PANEL) + at % PANEL : 0;
		const char *unit = data + at % PANEL * (w->type == TYPE_S8 ? QUAD : size);
		int64_t first = at < from ? from - at : 0, last = at + outputs > to ? to - at : outputs;
		for (int64_t row = 0, rows; row < n; row += rows) {
			int64_t passes = (n - row + t.most - 1) / t.most;
			float z[MOST * PANEL];
			rows = (n - row + passes - 1) / passes;
			t.of[rows - 1](unit, in, (const char *)x + row * each, z);
			for (int64_t r = 0; r < rows; r++)
				for (int64_t i = first; i < last; i++)
					y[(row + r) * ld + at + i] = scales ? z[r * outputs + i] * scales[i] : z[r * outputs + i];
		}
	}
}
