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

typedef float v8 __attribute__((vector_size(32)));
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

// dot_rows sets y[r·ld + i] to the product of row i of w [·, in] and row r of x
// [n, in] for i in [from, to).
void dot_rows(const float *w, int64_t in, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld);

#endif
