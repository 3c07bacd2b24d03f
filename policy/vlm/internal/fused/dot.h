#ifndef VAGEN_FUSED_DOT_H
#define VAGEN_FUSED_DOT_H

#include <stdint.h>
#include <string.h>

// Functions that work on vectors are compiled for AVX2 and FMA on x86-64, where
// fused_able has to be asked before they are called, and for what the compiler was
// told elsewhere.
#if defined(__x86_64__)
#define SIMD __attribute__((target("avx2,fma")))
#else
#define SIMD
#endif

#define AVX512 __attribute__((target("avx512f,fma")))

typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));

SIMD static inline v8 load(const float *p) {
	v8 v;
	memcpy(&v, p, sizeof v);
	return v;
}

SIMD static inline void store(float *p, v8 v) { memcpy(p, &v, sizeof v); }

SIMD static inline float sum(v8 v) {
	v4 half[2];
	memcpy(half, &v, sizeof v);
	half[0] += half[1];
	return (half[0][0] + half[0][2]) + (half[0][1] + half[0][3]);
}

// exponent is eˣ to within two units in the last place: 2ⁿ·eᶠ with n the nearest whole
// number to x/ln 2, so that |f| ≤ ln 2/2, where six terms of the series are enough.
SIMD static inline v8 exponent(v8 x) {
	const v8 zero = {0}, shift = zero + 12582912.0f; // adding 1.5·2²³ rounds to whole numbers
	const v8 low = zero - 87, high = zero + 88;
	i8 tiny = x < low, huge = x > high;
	v8 z = (v8)(((i8)x & ~huge) | ((i8)high & huge));
	v8 n = z * 1.44269504f + shift;
	i8 power = (i8)n - (i8)shift;
	n -= shift;
	v8 f = z - n * 0.693359375f + n * 2.12194440e-4f;
	v8 p = f * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * f + 8.3334519073e-3f;
	p = p * f + 4.1665795894e-2f;
	p = p * f + 1.6666665459e-1f;
	p = p * f + 5.0000001201e-1f;
	p = p * f * f + f + 1;
	return (v8)((i8)(p * (v8)((power + 127) << 23)) & ~tiny);
}

// WHOLE_TILES is a number of rows of w that the tiles of all sets of instructions divide: of others, some are
// multiplied alone, which takes longer.
enum { WHOLE_TILES = 12 };

// dot_rows sets y[r·ld + i] to the product of row i of w [·, in] and row r of x
// [n, in] for i in [from, to). Sums have the bits of a product with as rows, which may be others than those of n.
void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld,
              int64_t as);

#endif
