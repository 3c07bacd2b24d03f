#include "small.h"

#include <string.h>

#include "dot.h"
#include "narrow.h"

// Loops over the sums are unrolled, as an index that is not constant would keep all of them in memory.
#define MULTIPLY(NAME, TARGET, V, HEIGHT)                                                                        \
	TARGET static void NAME(const float *a, int64_t row, int64_t term, const float *b, float *y, int64_t m, int64_t n, \
	                        int64_t k, int more) {                                                               \
		enum { LANES = sizeof(V) / sizeof(float) };                                                              \
		for (int64_t j = 0; j < n; j += 2 * LANES)                                                               \
			for (int64_t i = 0; i < m; i += HEIGHT) {                                                            \
				V s[HEIGHT][2] = {{{0}}};                                                                        \
				for (int64_t t = 0; t < k; t++) {                                                                \
					V x, z;                                                                                      \
					memcpy(&x, b + t * n + j, sizeof x);                                                         \
					memcpy(&z, b + t * n + j + LANES, sizeof z);                                                 \
					_Pragma("GCC unroll 8") for (int r = 0; r < HEIGHT; r++) {                                   \
						float one = a[(i + r) * row + t * term];                                                 \
						s[r][0] += one * x;                                                                      \
						s[r][1] += one * z;                                                                      \
					}                                                                                            \
				}                                                                                                \
				_Pragma("GCC unroll 8") for (int r = 0; r < HEIGHT; r++) {                                       \
					V x = {0}, z = {0};                                                                          \
					float *to = y + (i + r) * n + j;                                                             \
					if (more) {                                                                                  \
						memcpy(&x, to, sizeof x);                                                                \
						memcpy(&z, to + LANES, sizeof z);                                                        \
					}                                                                                            \
					x += s[r][0];                                                                                \
					z += s[r][1];                                                                                \
					memcpy(to, &x, sizeof x);                                                                    \
					memcpy(to + LANES, &z, sizeof z);                                                            \
				}                                                                                                \
			}                                                                                                    \
	}

MULTIPLY(narrow, SIMD, v8, 4)
#if defined(__x86_64__)
MULTIPLY(wide, AVX512, v16, 8)
#endif

multiply *small_product(void) {
#if defined(__x86_64__)
	if (use_avx512())
		return wide;
#endif
	return narrow;
}
