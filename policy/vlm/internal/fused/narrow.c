#include "narrow.h"

#include <stdatomic.h>
#include <string.h>

#include "abi.h"

// tile multiplies some units of a panel, from w on, by some rows of x.
typedef void tile(const void *w, int64_t in, const float *x, float *y);

// MOST is the largest number of rows of a tile. Weights are called for AHEAD bytes before their turn, line by line.
enum { MOST = 8, AHEAD = 4096 };

#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) avx512_##x
#define TARGET __attribute__((target("avx512f,fma")))
#define V __m512
#define WIDTH 16
#define WIDE_BF16(p) \
	_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16))
#define WIDE_S8(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p))))
#define SPLAT _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#include "tile.h"

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define V __m256
#define WIDTH 8
#define WIDE_BF16(p) \
	_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p))), 16))
#define WIDE_S8(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p))))
#define SPLAT _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#include "tile.h"
#else
static float from_bf16(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

#define NAME(x) plain_##x
#define TARGET
#define V float
#define WIDTH 1
#define WIDE_BF16(p) from_bf16(*(p))
#define WIDE_S8(p) (float)*(p)
#define SPLAT(x) (x)
#define FMA(a, b, c) ((c) + (a) * (b))
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

#define CHOOSE(SET, UNITS, MOST) \
	(type == TYPE_S8 ? (tiles){SET##_int8_t_##UNITS, UNITS, MOST} : (tiles){SET##_uint16_t_##UNITS, UNITS, MOST})

// choose returns the tiles for n rows.
static tiles choose(int32_t type, int64_t n) {
#if defined(__x86_64__)
	if (use_avx512())
		return CHOOSE(avx512, 4, MOST);
	return n == 1 ? CHOOSE(avx2, 4, 1) : n == 2 ? CHOOSE(avx2, 2, 2) : CHOOSE(avx2, 1, 6);
#else
	return CHOOSE(plain, 1, 4);
#endif
}

void dot_narrow(const weight *w, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld) {
	tiles t = choose(w->type, n);
	int64_t outputs = t.units * UNIT, size = w->type == TYPE_S8 ? 1 : 2, in = w->in;
	int64_t panel = PANEL * size * (w->type == TYPE_S8 ? in + SCALES : in);
	for (int64_t at = from / outputs * outputs; at < to; at += outputs) {
		const char *data = (const char *)w->data + at / PANEL * panel;
		const float *scales = w->type == TYPE_S8 ? (const float *)(data + in * PANEL) + at % PANEL : 0;
		int64_t first = at < from ? from - at : 0, last = at + outputs > to ? to - at : outputs;
		for (int64_t row = 0, rows; row < n; row += rows) {
			int64_t passes = (n - row + t.most - 1) / t.most;
			float z[MOST * PANEL];
			rows = (n - row + passes - 1) / passes;
			t.of[rows - 1](data + at % PANEL * size, in, x + row * in, z);
			for (int64_t r = 0; r < rows; r++)
				for (int64_t i = first; i < last; i++)
					y[(row + r) * ld + at + i] = scales ? z[r * outputs + i] * scales[i] : z[r * outputs + i];
		}
	}
}
