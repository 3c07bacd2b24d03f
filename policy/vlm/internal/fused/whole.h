#ifndef VAGEN_FUSED_WHOLE_H
#define VAGEN_FUSED_WHOLE_H

#include <stdint.h>

#include "block.h"

// A decoder block over whole rows of tokens: what is before attention, and what is after it. Weights are [out, in].
// Biases and norms that it does not have are null. Of tokens that are not real [n], unless that is null, outputs are 0.

// opening is norm, projection and positions of n tokens, of which length follow each other.
typedef struct {
	int64_t n, hidden, length;
	const uint8_t *real;
	head_set heads;
	const float *x;         // [n, hidden]
	const float *cos, *sin; // [n, dim/2]
	const float *norm, *qkv, *qkv_b;
	float *q, *k, *v; // [n/length, heads, length, dim]
	float *kept;      // [n, (heads+2·kv)·dim]: the projection; or null, as with tokens that are not real
} opening;

// closing is the projection of attention, and the feed-forward part.
typedef struct {
	int64_t n, hidden, length, heads, dim, ff;
	const uint8_t *real;
	float eps, plus;       // plus is added to the norm's weights
	const float *x;        // [n, hidden]: the block's input
	const float *attended; // [n/length, heads, length, dim]
	const float *out, *out_b, *norm, *up, *up_b, *down, *down_b;
	float *y;          // [n, hidden]
	float *mid, *sums; // [n, hidden], [n, 2·ff]: what is made between; or null, as with tokens that are not real
} closing;

// They return 0 for want of memory.
int opening_run(const opening *o);
int closing_run(const closing *c);

#endif
