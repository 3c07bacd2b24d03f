#ifndef VAGEN_FUSED_SCORES_H
#define VAGEN_FUSED_SCORES_H

#include <stdint.h>

// scores are log-probs of the targets [n], and entropies, of the logits x [n, hidden] times table [vocabulary, hidden]
// transposed over the temperature.
typedef struct {
	int64_t n, hidden, vocabulary;
	const float *x, *table;
	const int32_t *target;
	float temperature;
	float *log_prob, *entropy;
} scores;

// scores_run returns 0 for want of memory.
int scores_run(const scores *s);

#endif
