#ifndef VAGEN_FUSED_ROWS_H
#define VAGEN_FUSED_ROWS_H

#include <math.h>

#include "block.h"
#include "dot.h"

// Functions of one row of tokens, for steps and whole rows alike.

SIMD static inline float dot(const float *a, const float *b, int64_t n) {
	v8 s = {0};
	int64_t k = 0;
	for (; k + 8 <= n; k += 8)
		s += load(a + k) * load(b + k);
	float z = sum(s);
	for (; k < n; k++)
		z += a[k] * b[k];
	return z;
}

// norm is x / sqrt(mean(x²) + eps) · (w + plus).
SIMD static inline void norm(const float *x, const float *w, float plus, float eps, int64_t n, float *y) {
	float scale = 1 / sqrtf(dot(x, x, n) / (float)n + eps);
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * scale * (w[i] + plus);
}

SIMD static inline void add(float *y, const float *x, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		y[i] += x[i];
}

// rotate turns the pairs (x[i], x[i + half]) by the angles.
SIMD static inline void rotate(float *x, const float *cos, const float *sin, int64_t half) {
	for (int64_t i = 0; i < half; i++) {
		float a = x[i], c = x[i + half];
		x[i] = a * cos[i] - c * sin[i];
		x[i + half] = c * cos[i] + a * sin[i];
	}
}

// place applies norms and positions to the queries and keys of a token.
SIMD static inline void place(const head_set *b, float *x, const float *cos, const float *sin) {
	for (int64_t h = 0; h < b->heads + b->kv; h++, x += b->dim) {
		const float *w = h < b->heads ? b->q_norm : b->k_norm;
		if (w)
			norm(x, w, 0, b->eps, b->dim, x);
		rotate(x, cos, sin, b->dim / 2);
	}
}

// silu_times is gate·σ(gate)·up. Numbers behind the last whole vector are computed as a
// vector, too: shares end anywhere, and what a number becomes may not depend on that.
SIMD static inline void silu_times(const float *gate, const float *up, int64_t n, float *y) {
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		v8 g = load(gate + i);
		store(y + i, g / (1 + exponent(-g)) * load(up + i));
	}
	if (i < n) {
		float rest[2][8] = {{0}};
		memcpy(rest[0], gate + i, (n - i) * sizeof *gate);
		memcpy(rest[1], up + i, (n - i) * sizeof *up);
		v8 g = load(rest[0]);
		store(rest[0], g / (1 + exponent(-g)) * load(rest[1]));
		memcpy(y + i, rest[0], (n - i) * sizeof *y);
	}
}

#endif
