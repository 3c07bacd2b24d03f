#ifndef VAGEN_FUSED_BLOCK_H
#define VAGEN_FUSED_BLOCK_H

#include <stdint.h>

#include "narrow.h"

// head_set is the heads of queries and keys in a projection, whose norms are null if there are none.
typedef struct {
	int64_t heads, kv, dim;
	float eps;
	const float *q_norm, *k_norm;
} head_set;

// stretch is a part of the cache: keys and values [rows, kv, length, dim], and which
// slots hold a token of the row, [rows, length].
typedef struct {
	float *k, *v;
	const uint8_t *allow;
	int64_t length;
} stretch;

// block is a decoder block that reads one token for each row, or several positions of each row of the cache, one
// behind the other in x, which all are in the cache before they attend. Rows that may not see their own slot, or have
// none, are left as they are. Biases and norms that it does not have are null.
typedef struct {
	int64_t rows, each, hidden, heads, kv, dim, ff; // rows of x, of which each stand for a row of the cache
	float eps;
	const float *x;         // [rows, hidden]
	const float *cos, *sin; // [rows, dim/2]
	stretch past, recent; // recent has a line of allow for each row of x
	const int32_t *at;    // slot of recent that a token's key and value go to; none if it is out of range
	int64_t apart;        // 1 if rows of x have slots of their own, 0 if they share one, which is in range
	weight qkv, out, up, down;
	const float *norm1, *qkv_b, *q_norm, *k_norm, *out_b, *norm2, *up_b, *down_b;
	float *y; // [rows, hidden]
} block;

// block_run returns 0, or else why it could not run.
const char *block_run(const block *b);

// delta is a gated delta rule that reads one token for each row.
typedef struct {
	int64_t rows, heads, key, value;
	const float *q, *k, *v;  // [rows, heads, key or value]
	const float *beta, *g;   // [rows, heads]
	const uint8_t *live;     // [rows]: the states of other rows stay
	float *state;            // [rows, heads, key, value]
	float *o;                // [rows, heads, value]
} delta;

void delta_run(const delta *d);

// product sets y [rows, out] to x [rows, in] times w [out, in] transposed, with the bits of as rows. It returns 0 for
// want of memory.
int product(const float *x, const weight *w, float *y, int64_t rows, int64_t out, int64_t as);

#endif
