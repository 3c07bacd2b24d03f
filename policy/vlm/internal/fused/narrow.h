#ifndef VAGEN_FUSED_NARROW_H
#define VAGEN_FUSED_NARROW_H

#include <stdint.h>

// PANEL is how many outputs of a packed matrix lie side by side, SCALES how many of its rows of
// bytes hold their scales.
enum { PANEL = 64, SCALES = 4 };

// LINE is how many bytes a line of the cache has.
enum { LINE = 64 };

// weight is a matrix [out, in]: row by row in float32, or packed. A packed one has panels of 64
// outputs, [panels, in, 64] in bfloat16, or [panels, in + 4, 64] in int8, where the last 256
// bytes of a panel are the outputs' scales in float32. Outputs that fill up the last panel are not used.
typedef struct {
	const void *data;
	int32_t type; // TYPE_F32, TYPE_BF16 or TYPE_S8
	int64_t in;
} weight;

// UNIT is how many outputs of a packed matrix are computed together at least.
enum { UNIT = 16 };

// dot_narrow is dot_rows for a packed matrix. A product is one sum in the order of the inputs, so it does not
// depend on from, to or the other rows.
void dot_narrow(const weight *w, int64_t from, int64_t to, const float *x, int64_t n, float *y, int64_t ld);

// allow_avx512 sets whether products use AVX-512 where the processor has it, and returns whether they did. It changes
// no bit.
int allow_avx512(int allow);

// use_avx512 reports whether products use AVX-512.
int use_avx512(void);

#endif
