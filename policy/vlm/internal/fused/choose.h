#ifndef VAGEN_FUSED_CHOOSE_H
#define VAGEN_FUSED_CHOOSE_H

#include <stdint.h>

// The bits of a choice's attribute "has", as in Go.
enum { HAS_GREEDY = 1, HAS_TOP_K = 2, HAS_TOP_P = 4, HAS_MIN_P = 8, HAS_NEVER = 16, HAS_FORCED = 32 };

// choice is a token for each row of logits [n, vocabulary], with its log-prob: Sampler.Sample of package model.
typedef struct {
	int64_t has, n, vocabulary;
	const float *logits;
	const uint32_t *seeds, *count; // [n, 2], [n]
	const float *params;           // temperature, top-k, top-p, min-p
	const int32_t *never;          // [nevers]: tokens that are left out
	int64_t nevers;
	const int32_t *forced; // [n]: tokens that are given, unless negative
	int32_t *id;
	float *log_prob;
} choice;

// choice_run returns 0 for want of memory.
int choice_run(const choice *c);

#endif
