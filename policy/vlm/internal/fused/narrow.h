#ifndef VAGEN_FUSED_NARROW_H
#define VAGEN_FUSED_NARROW_H

#include <stdint.h>

// PANEL is how many outputs of a packed matrix lie side by side, SCALES how many of its rows of
// bytes hold their scales.
enum { PANEL = 64, SCALES = 4 };

// LINE is how many bytes a line of the cache has.
enum { LINE = 64 };

// QUAD is how many weights of an output lie side by side in int8.
enum { QUAD = 4 };

// weight is a matrix [out, in]: row by row in float32, or packed. A packed one has panels of 64
// outputs, [panels, in, 64] in bfloat16, or [panels, in/4, 64, 4] in int8, where another 256
// bytes of a panel are the outputs' scales in float32. Outputs that fill up the last panel are not used.
typedef struct {
	const void *data;
	int32_t type; // TYPE_F32, TYPE_BF16 or TYPE_S8
	int64_t in;
} weight;

// UNIT is how many outputs of a packed matrix are computed together at least.
enum { UNIT = 16 };

// BLOCK is how many numbers of a rounded row have a scale.
enum { BLOCK = 32 };

// rounded is a block of a row: multiples of its scale, to the nearest. start is −128 times their sum.
typedef struct {
	float scale;
	int32_t start, x[BLOCK / QUAD];
} rounded;

static inline int64_t blocks(int64_t in) { return (in + BLOCK - 1) / BLOCK; }

// round_rows rounds rows of x [n, in] to [n, blocks(in)].
void round_rows(const float *x, int64_t n, int64_t in, rounded *to);

// dot_narrow is dot_rows for a packed matrix, and in int8 for rounded rows. A product is one sum in the order of the
// inputs, or of blocks, of which each is exact, so it does not depend on from, to or the other rows.
void dot_narrow(const weight *w, int64_t from, int64_t to, const void *x, int64_t n, float *y, int64_t ld);

// allow_avx512 sets whether products use AVX-512 where the processor has it, and returns whether they did. It changes
// no bit.
int allow_avx512(int allow);

// use_avx512 reports whether products use AVX-512.
int use_avx512(void);

#endif
