#ifndef VAGEN_FUSED_ATTEND_H
#define VAGEN_FUSED_ATTEND_H

#include <stdint.h>

// attention is softmax(q·kᵀ/√dim)·v of whole rows of tokens, without storing the scores. Of a key head, queries are
// length tokens of one head after those of another.
typedef struct {
	int64_t groups, heads, queries, length, keys, dim; // heads of keys
	const float *q;                                    // [groups, heads, queries, dim]
	const float *k, *v;                                // [groups, heads, keys, dim]
	const uint8_t *mask;                               // [groups, length, keys]: where attention is allowed; null is everywhere
	float *o;                                          // [groups, heads, queries, dim]; 0 where none is allowed
} attention;

// attention_run returns 0 for want of memory.
int attention_run(const attention *a);

#endif
