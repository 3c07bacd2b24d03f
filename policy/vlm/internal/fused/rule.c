#include "rule.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "dot.h"
#include "small.h"
#include "team.h"

// Package model defines what is computed here (deltaRule), with names of the same meaning. Of a head, all that a chunk
// needs stays in the second cache. Widths are filled up with zeros to a multiple of WIDE.
enum { SQUARE = CHUNK * CHUNK };

// room is what a head is computed with. Arrays of tokens are [CHUNK, key or value], squares [token, token].
typedef struct {
	const rule *r;
	multiply *times;
	int64_t key, value, group, head, at, n; // filled widths, and the n tokens from at on
	float *q, *k, *v, *k_out, *news, *missed, *turned, *state; // k_out = leave·k, missed = v − enter·k·S
	float *by, *by_new, *by_q, *by_k, *by_state, *turned_more;
	float kk[SQUARE], qk[SQUARE], decay[SQUARE], below[SQUARE], probs[SQUARE], by_probs[SQUARE], by_a[SQUARE];
	float beta[CHUNK], enter[CHUNK], leave[CHUNK], through;
} room;

static int64_t token(const room *m, int64_t i) {
	return (m->group * m->r->length + m->at + i) * m->r->heads + m->head;
}

// take copies a chunk's rows of x; what is missing is 0.
static void take(const room *m, const float *x, int64_t width, float *to, int64_t filled) {
	memset(to, 0, CHUNK * filled * sizeof *to);
	for (int64_t i = 0; i < m->n; i++)
		memcpy(to + i * filled, x + token(m, i) * width, width * sizeof *to);
}

static void give(const room *m, const float *from, int64_t filled, float *x, int64_t width) {
	for (int64_t i = 0; i < m->n; i++)
		memcpy(x + token(m, i) * width, from + i * filled, width * sizeof *x);
}

// turn transposes x [CHUNK, width].
static void turn(const float *x, int64_t width, float *to) {
	for (int64_t c = 0; c < width; c += 16)
		for (int64_t i = 0; i < CHUNK; i++)
			for (int64_t b = 0; b < 16; b++)
				to[(c + b) * CHUNK + i] = x[i * width + c + b];
}

SIMD static void scale(float *to, const float *x, const float *by, int64_t width) {
	for (int64_t i = 0; i < CHUNK; i++)
		for (int64_t c = 0; c < width; c++)
			to[i * width + c] = by[i] * x[i * width + c];
}

SIMD static float dot(const float *x, const float *y, int64_t n) {
	v8 s = {0};
	for (int64_t i = 0; i < n; i += 8)
		s += load(x + i) * load(y + i);
	return sum(s);
}

// decays sets what depends on g and the segments only.
SIMD static void decays(room *m) {
	const int32_t *segment = m->r->segment + m->group * m->r->length + m->at;
	int32_t before = segment[m->at > 0 ? -1 : 0], of[CHUNK];
	float total[CHUNK], sum = 0;
	for (int64_t i = 0; i < CHUNK; i++) {
		int on = i < m->n;
		total[i] = sum += on ? m->r->g[token(m, i)] : 0;
		m->beta[i] = on ? m->r->beta[token(m, i)] : 0;
		of[i] = segment[on ? i : m->n - 1];
	}
	for (int64_t j = 0; j < CHUNK; j += 8) {
		store(m->enter + j, exponent(load(total + j)));
		store(m->leave + j, exponent(sum - load(total + j)));
		for (int64_t i = 0; i < CHUNK; i++)
			store(m->decay + i * CHUNK + j, exponent(total[i] - load(total + j)));
	}
	for (int64_t i = 0; i < CHUNK; i++) {
		m->enter[i] = of[i] == before ? m->enter[i] : 0;
		m->leave[i] = of[i] == of[CHUNK - 1] ? m->leave[i] : 0;
		for (int64_t j = 0; j < CHUNK; j++) {
			m->decay[i * CHUNK + j] = j <= i && of[i] == of[j] ? m->decay[i * CHUNK + j] : 0;
			m->below[i * CHUNK + j] = j < i ? m->beta[i] * m->decay[i * CHUNK + j] : 0;
		}
	}
	m->through = m->enter[CHUNK - 1];
}

// begin sets what a chunk's forward and backward pass share, from the state before it.
SIMD static void begin(room *m) {
	const rule *r = m->r;
	int64_t key = m->key, value = m->value;
	decays(m);
	take(m, r->q, r->key, m->q, key);
	take(m, r->k, r->key, m->k, key);
	take(m, r->v, r->value, m->v, value);
	scale(m->k_out, m->k, m->leave, key);
	turn(m->k, key, m->turned);
	m->times(m->k, key, 1, m->turned, m->kk, CHUNK, CHUNK, key, 0);
	m->times(m->q, key, 1, m->turned, m->qk, CHUNK, CHUNK, key, 0);
	for (int64_t i = 0; i < SQUARE; i++)
		m->probs[i] = m->qk[i] * m->decay[i];
	m->times(m->k, key, 1, m->state, m->missed, CHUNK, value, key, 0);
	for (int64_t i = 0; i < CHUNK; i++) {
		float *news = m->news + i * value, *missed = m->missed + i * value;
		for (int64_t c = 0; c < value; c++) {
			missed[c] = m->v[i * value + c] - m->enter[i] * missed[c];
			news[c] = m->beta[i] * missed[c];
		}
		for (int64_t j = 0; j < i; j++) {
			float a = m->below[i * CHUNK + j] * m->kk[i * CHUNK + j];
			for (int64_t c = 0; c < value; c++)
				news[c] -= a * m->news[j * value + c];
		}
	}
}

// place is where the state before the chunk is among states.
static float *place(const room *m) {
	const rule *r = m->r;
	return r->states + ((m->at / CHUNK * r->groups + m->group) * r->heads + m->head) * r->key * r->value;
}

// keep copies the state [key, value].
static void keep(const room *m, float *to) {
	for (int64_t i = 0; i < m->r->key; i++)
		memcpy(to + i * m->r->value, m->state + i * m->value, m->r->value * sizeof *to);
}

static void restore(room *m, const float *from) {
	for (int64_t i = 0; i < m->r->key; i++)
		memcpy(m->state + i * m->value, from + i * m->r->value, m->r->value * sizeof *from);
}

SIMD static void forward(room *m) {
	const rule *r = m->r;
	int64_t key = m->key, value = m->value;
	if (r->states)
		keep(m, place(m));
	begin(m);
	m->times(m->q, key, 1, m->state, m->missed, CHUNK, value, key, 0);
	scale(m->missed, m->missed, m->enter, value);
	m->times(m->probs, CHUNK, 1, m->news, m->missed, CHUNK, value, CHUNK, 1);
	give(m, m->missed, value, r->o, r->value);
	for (int64_t i = 0; i < key * value; i++)
		m->state[i] *= m->through;
	m->times(m->k_out, 1, key, m->news, m->state, key, value, CHUNK, 1);
}

// states_back sets by_q and by_k to the gradients that come from states, and total to those of the sums of g, from the
// gradient by_state after the chunk, of which it makes the one before. It returns what all sums of g pass on.
SIMD static float states_back(room *m, float *total) {
	int64_t key = m->key, value = m->value;
	float *by_q = m->turned_more, *by_k = by_q + CHUNK * key, *out = by_k + CHUNK * key;
	float end = m->through * dot(m->by_state, m->state, key * value), both[CHUNK];
	m->times(m->by_state, value, 1, m->turned, out, key, CHUNK, value, 0); // turned has news
	turn(m->by, value, m->turned);
	m->times(m->state, value, 1, m->turned, by_q, key, CHUNK, value, 0);
	turn(m->by_new, value, m->turned);
	m->times(m->state, value, 1, m->turned, by_k, key, CHUNK, value, 0);
	for (int64_t i = 0; i < CHUNK; i++) {
		float entering = 0, leaving = 0;
		both[i] = -m->beta[i] * m->enter[i];
		for (int64_t c = 0; c < key; c++) {
			float q = m->enter[i] * by_q[c * CHUNK + i], k = both[i] * by_k[c * CHUNK + i];
			float more = m->leave[i] * out[c * CHUNK + i];
			m->by_q[i * key + c] = q;
			m->by_k[i * key + c] = k + more;
			entering += q * m->q[i * key + c] + k * m->k[i * key + c];
			leaving += more * m->k[i * key + c];
		}
		total[i] += entering - leaving;
		end += leaving;
	}
	for (int64_t i = 0; i < key * value; i++)
		m->by_state[i] *= m->through;
	scale(m->turned_more, m->q, m->enter, key);
	m->times(m->turned_more, 1, key, m->by, m->by_state, key, value, CHUNK, 1);
	scale(m->turned_more, m->k, both, key);
	m->times(m->turned_more, 1, key, m->by_new, m->by_state, key, value, CHUNK, 1);
	return end;
}

SIMD static void backward(room *m) {
	const rule *r = m->r;
	int64_t key = m->key, value = m->value;
	restore(m, place(m));
	begin(m);
	take(m, r->by_o, r->value, m->by, value);
	m->times(m->probs, 1, CHUNK, m->by, m->by_new, CHUNK, value, CHUNK, 0);
	m->times(m->k_out, key, 1, m->by_state, m->by_new, CHUNK, value, key, 1);
	for (int64_t j = CHUNK - 1; j >= 0; j--)
		for (int64_t i = j + 1; i < CHUNK; i++) {
			float a = m->below[i * CHUNK + j] * m->kk[i * CHUNK + j];
			for (int64_t c = 0; c < value; c++)
				m->by_new[j * value + c] -= a * m->by_new[i * value + c];
		}
	turn(m->news, value, m->turned);
	m->times(m->by, value, 1, m->turned, m->by_probs, CHUNK, CHUNK, value, 0);
	m->times(m->by_new, value, 1, m->turned, m->by_a, CHUNK, CHUNK, value, 0);
	float total[CHUNK] = {0}, by_beta[CHUNK];
	for (int64_t i = 0; i < CHUNK; i++) {
		by_beta[i] = dot(m->by_new + i * value, m->missed + i * value, value);
		for (int64_t j = 0; j <= i; j++) {
			int64_t at = i * CHUNK + j;
			float a = -m->by_a[at];
			by_beta[i] += j < i ? a * m->kk[at] * m->decay[at] : 0;
			m->by_a[at] = a * m->below[at];
			m->by_probs[at] *= m->decay[at];
			float pair = m->by_probs[at] * m->qk[at] + m->by_a[at] * m->kk[at];
			total[i] += pair;
			total[j] -= pair;
		}
		for (int64_t j = i + 1; j < CHUNK; j++)
			m->by_a[i * CHUNK + j] = m->by_probs[i * CHUNK + j] = 0;
	}
	float end = states_back(m, total);
	m->times(m->by_probs, CHUNK, 1, m->k, m->by_q, CHUNK, key, CHUNK, 1);
	m->times(m->by_probs, 1, CHUNK, m->q, m->by_k, CHUNK, key, CHUNK, 1);
	m->times(m->by_a, CHUNK, 1, m->k, m->by_k, CHUNK, key, CHUNK, 1);
	m->times(m->by_a, 1, CHUNK, m->k, m->by_k, CHUNK, key, CHUNK, 1);
	scale(m->by_new, m->by_new, m->beta, value);
	give(m, m->by_q, key, r->by_q, r->key);
	give(m, m->by_k, key, r->by_k, r->key);
	give(m, m->by_new, value, r->by_v, r->value);
	for (int64_t i = CHUNK - 1; i >= 0; i--) {
		end += total[i];
		if (i >= m->n)
			continue;
		r->by_beta[token(m, i)] = by_beta[i];
		r->by_g[token(m, i)] = end;
	}
}

typedef struct {
	const rule *r;
	atomic_int failed;
} job;

// arrange lays a room's arrays out in memory, and returns how many numbers they have.
static int64_t arrange(room *m, float *memory) {
	int64_t key = m->key, value = m->value, more = key > value ? key : value, at = 0;
	struct {
		float **of;
		int64_t size;
	} all[] = {{&m->q, CHUNK * key}, {&m->k, CHUNK * key}, {&m->k_out, CHUNK * key}, {&m->by_q, CHUNK * key},
	           {&m->by_k, CHUNK * key}, {&m->turned_more, 3 * CHUNK * key}, {&m->v, CHUNK * value},
	           {&m->news, CHUNK * value}, {&m->missed, CHUNK * value}, {&m->by, CHUNK * value},
	           {&m->by_new, CHUNK * value}, {&m->turned, CHUNK * more}, {&m->state, key * value},
	           {&m->by_state, key * value}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		*all[i].of = memory + at;
		at += all[i].size;
	}
	return at;
}

static void heads(void *of, int64_t from, int64_t to) {
	job *j = of;
	const rule *r = j->r;
	room m = {.r = r, .times = small_product(), .key = fill(r->key), .value = fill(r->value)};
	float *memory;
	if (posix_memalign((void **)&memory, 64, arrange(&m, NULL) * sizeof *memory)) {
		j->failed = 1;
		return;
	}
	arrange(&m, memory);
	int64_t chunks = (r->length + CHUNK - 1) / CHUNK;
	for (int64_t i = from; i < to; i++) {
		m.group = i / r->heads, m.head = i % r->heads;
		memset(m.state, 0, m.key * m.value * sizeof *m.state);
		memset(m.by_state, 0, m.key * m.value * sizeof *m.state);
		if (r->start)
			restore(&m, r->start + i * r->key * r->value);
		for (int64_t c = 0; c < chunks; c++) {
			m.at = (r->by_o ? chunks - 1 - c : c) * CHUNK;
			m.n = r->length - m.at < CHUNK ? r->length - m.at : CHUNK;
			(r->by_o ? backward : forward)(&m);
		}
		if (r->end)
			keep(&m, r->end + i * r->key * r->value);
	}
	free(memory);
}

int rule_run(const rule *r) {
	job j = {.r = r};
	uint64_t mode = flush_denormals();
	int taken = team_take();
	team_loop(taken, heads, &j, r->groups * r->heads, 1);
	team_leave(taken);
	restore_denormals(mode);
	return !j.failed;
}
