#ifndef VAGEN_FUSED_RULE_H
#define VAGEN_FUSED_RULE_H

#include <stdint.h>

// rule is a gated delta rule over whole rows, in chunks of CHUNK tokens.
typedef struct {
	int64_t groups, length, heads, key, value;
	const float *q, *k, *v;  // [groups, length, heads, key or value]
	const float *beta, *g;   // [groups, length, heads]
	const int32_t *segment;  // [groups, length]: states begin anew with each
	const float *start;      // [groups, heads, key, value]: states before the first token; null are zeros
	float *o;                // [groups, length, heads, value]
	float *end;              // the states after the last token; may be null
	float *states;           // [chunks, groups, heads, key, value]: those before chunks; may be null without gradients
	const float *by_o;       // its gradient, to set those that follow, instead of o and states
	float *by_q, *by_k, *by_v, *by_beta, *by_g;
} rule;

enum { CHUNK = 32 };

// rule_run returns 0 for want of memory.
int rule_run(const rule *r);

#endif
