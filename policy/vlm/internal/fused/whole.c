#include "whole.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gemm.h"
#include "rows.h"
#include "team.h"

// A thread computes all of MOST tokens at most, whose rows stay in the second cache. The feed-forward part is computed
// WIDE of its numbers at a time, whose weights stay in the third one; gate and up TOGETHER panels at a time.
enum { MOST = 240, LEAST = 24, WIDE = 576, TOGETHER = 4, ALIGN = 64 };

// job is loops over shares of tokens, with some matrices in panels.
typedef struct {
	const void *of;
	int64_t n, each; // tokens; of a share
	int64_t *token;  // their numbers, or null if all are computed
	panels w[3];
	int matrices, taken;
	float *memory; // of the panels
	float *rows;   // [n, hidden] as products read it
	float *y;      // [n, hidden]: a closing's sums
	int64_t from, some; // of the feed-forward part's numbers
	atomic_int failed;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up_to(int64_t n, int64_t size) { return (n + size - 1) / size * size; }

static job shared(const void *of, int64_t n, const uint8_t *real) {
	job j = {.of = of, .n = n};
	if (real && memchr(real, 0, n) && (j.token = malloc(n * sizeof *j.token))) { // without memory, all are computed
		j.n = 0;
		for (int64_t i = 0; i < n; i++)
			if (real[i])
				j.token[j.n++] = i;
	}
	int64_t shares = most(up_to(j.n, MOST) / MOST, 1);
	int64_t each = j.n / up_to(shares, team_size());
	j.each = least(up_to(most(each + 1, LEAST), ROWS), MOST);
	return j;
}

static int64_t token_at(const job *j, int64_t i) { return j->token ? j->token[i] : i; }

// room returns memory for so many numbers, or null, which it notes.
static float *room(job *j, int64_t numbers) {
	float *memory;
	if (!posix_memalign((void **)&memory, ALIGN, numbers * sizeof *memory))
		return memory;
	j->failed = 1;
	return NULL;
}

// set gives the job matrices.
static void set(job *j, int n, const panels *w) {
	float *at = j->memory;
	for (int i = 0; i < n; i++) {
		j->w[i] = w[i];
		j->w[i].at = at;
		at += panels_size(&w[i]);
	}
	j->matrices = n;
}

static void fill(void *of, int64_t from, int64_t to) {
	job *j = of;
	for (int i = 0; i < j->matrices; i++) {
		int64_t places = panels_places(&j->w[i]);
		if (from < places && to > 0)
			panels_fill(&j->w[i], most(from, 0), least(to, places));
		from -= places;
		to -= places;
	}
}

// run fills the panels, and then runs a loop over the shares.
static void run(job *j, work *share) {
	int64_t places = 0;
	for (int i = 0; i < j->matrices; i++)
		places += panels_places(&j->w[i]);
	team_loop(j->taken, fill, j, places, 1);
	team_loop(j->taken, share, j, up_to(j->n, j->each) / j->each, 1);
}

// copy moves a token's heads between a row and an array [groups, heads, length, dim].
static void copy(float *row, float *all, int64_t token, int64_t heads, int64_t length, int64_t dim, int out) {
	all += (token / length * heads * length + token % length) * dim;
	for (int64_t h = 0; h < heads; h++, row += dim, all += length * dim)
		memcpy(out ? all : row, out ? row : all, dim * sizeof *row);
}

static void open_rows(const job *j, int64_t first, int64_t m, float *normed, float *rows, float *qkv) {
	const opening *o = j->of;
	const head_set *s = &o->heads;
	int64_t wide = (s->heads + 2 * s->kv) * s->dim, half = s->dim / 2;
	for (int64_t r = 0; r < m; r++)
		norm(o->x + token_at(j, first + r) * o->hidden, o->norm, 0, s->eps, o->hidden, normed + r * o->hidden);
	rows_fill(normed, m, o->hidden, rows);
	rows_times(rows, m, &j->w[0], 0, j->w[0].count, qkv, wide, 0);
	for (int64_t r = 0; r < m; r++) {
		float *q = qkv + r * wide, *k = q + s->heads * s->dim, *v = k + s->kv * s->dim;
		int64_t token = token_at(j, first + r);
		if (o->qkv_b)
			add(q, o->qkv_b, wide);
		if (o->kept)
			memcpy(o->kept + token * wide, q, wide * sizeof *q);
		place(s, q, o->cos + token * half, o->sin + token * half);
		copy(q, o->q, token, s->heads, o->length, s->dim, 1);
		copy(k, o->k, token, s->kv, o->length, s->dim, 1);
		copy(v, o->v, token, s->kv, o->length, s->dim, 1);
	}
}

static void open_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	int64_t hidden = ((const opening *)j->of)->hidden;
	float *normed = room(j, j->each * (2 * hidden + j->w[0].n));
	if (!normed)
		return;
	float *rows = normed + j->each * hidden, *qkv = rows + j->each * hidden;
	for (int64_t first = from * j->each; first < least(to * j->each, j->n); first += j->each)
		open_rows(j, first, least(j->each, j->n - first), normed, rows, qkv);
	free(normed);
}

// blank sets the heads of tokens that are not real to 0.
static void blank(const opening *o, float *all, int64_t heads) {
	int64_t dim = o->heads.dim;
	for (int64_t i = 0; i < o->n / o->length * heads * o->length; i++)
		if (!o->real[i / (heads * o->length) * o->length + i % o->length])
			memset(all + i * dim, 0, dim * sizeof *all);
}

int opening_run(const opening *o) {
	job j = shared(o, o->n, o->real);
	panels w = panels_of(o->qkv, o->hidden, (o->heads.heads + 2 * o->heads.kv) * o->heads.dim, o->hidden);
	j.memory = room(&j, panels_size(&w));
	if (!j.memory) {
		free(j.token);
		return 0;
	}
	set(&j, 1, &w);
	uint64_t mode = flush_denormals();
	j.taken = team_take();
	run(&j, open_share);
	team_leave(j.taken);
	restore_denormals(mode);
	if (j.token) {
		blank(o, o->q, o->heads.heads);
		blank(o, o->k, o->heads.kv);
		blank(o, o->v, o->heads.kv);
	}
	free(j.memory);
	free(j.token);
	return !j.failed;
}

// project sets y to the sum after attention, and the job's rows to its norm.
static void project(const job *j, int64_t first, int64_t m, float *wide, float *rows) {
	const closing *c = j->of;
	int64_t in = c->heads * c->dim, hidden = c->hidden;
	float *y = j->y + first * hidden;
	for (int64_t r = 0; r < m; r++)
		copy(wide + r * in, (float *)c->attended, token_at(j, first + r), c->heads, c->length, c->dim, 0);
	rows_fill(wide, m, in, rows);
	rows_times(rows, m, &j->w[0], 0, j->w[0].count, y, hidden, 0);
	for (int64_t r = 0; r < m; r++) {
		float *mid = y + r * hidden;
		if (c->out_b)
			add(mid, c->out_b, hidden);
		add(mid, c->x + token_at(j, first + r) * hidden, hidden);
		norm(mid, c->norm, c->plus, c->eps, hidden, wide + r * hidden);
		if (c->mid)
			memcpy(c->mid + (first + r) * hidden, mid, hidden * sizeof *mid);
		if (c->down_b)
			add(mid, c->down_b, hidden);
	}
	rows_fill(wide, m, hidden, j->rows + first * hidden);
}

static void project_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	const closing *c = j->of;
	int64_t widest = most(c->heads * c->dim, c->hidden);
	float *wide = room(j, 2 * j->each * widest);
	if (!wide)
		return;
	for (int64_t first = from * j->each; first < least(to * j->each, j->n); first += j->each)
		project(j, first, least(j->each, j->n - first), wide, wide + j->each * widest);
	free(wide);
}

// feed adds what some numbers of the feed-forward part give, silu(gate)·up, to y.
static void feed(const job *j, int64_t first, int64_t m, float *part, float *acts, float *rows) {
	const closing *c = j->of;
	const panels *gate = &j->w[0], *up = &j->w[1], *down = &j->w[2];
	const float *in = j->rows + first * c->hidden;
	for (int64_t p = 0; p < gate->count; p += TOGETHER) {
		int64_t end = least(p + TOGETHER, gate->count), column = p * gate->width;
		int64_t n = least(end * gate->width, j->some) - column, at = j->from + column;
		int64_t line = 2 * TOGETHER * gate->width;
		float *g = part, *u = g + line / 2;
		if (c->sums) {
			line = 2 * c->ff;
			g = c->sums + first * line + at;
			u = g + c->ff;
		}
		rows_times(in, m, gate, p, end, g, line, 0);
		rows_times(in, m, up, p, end, u, line, 0);
		for (int64_t r = 0; r < m; r++, g += line, u += line) {
			if (c->up_b) {
				add(g, c->up_b + at, n);
				add(u, c->up_b + c->ff + at, n);
			}
			silu_times(g, u, n, acts + r * j->some + column);
		}
	}
	rows_fill(acts, m, j->some, rows);
	rows_times(rows, m, down, 0, down->count, j->y + first * c->hidden, c->hidden, 1);
	for (int64_t r = first; j->token && j->from + j->some == c->ff && r < first + m; r++)
		memcpy(c->y + j->token[r] * c->hidden, j->y + r * c->hidden, c->hidden * sizeof *c->y);
}

static void feed_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	int64_t columns = 2 * TOGETHER * j->w[0].width;
	float *part = room(j, j->each * (columns + 2 * j->some));
	if (!part)
		return;
	float *acts = part + j->each * columns, *rows = acts + j->each * j->some;
	for (int64_t first = from * j->each; first < least(to * j->each, j->n); first += j->each)
		feed(j, first, least(j->each, j->n - first), part, acts, rows);
	free(part);
}

// parts sets the matrices of some numbers of the feed-forward part.
static void parts(const closing *c, int64_t from, int64_t some, panels *w) {
	w[0] = panels_of(c->up + from * c->hidden, c->hidden, some, c->hidden);
	w[1] = panels_of(c->up + (c->ff + from) * c->hidden, c->hidden, some, c->hidden);
	w[2] = panels_of(c->down + from, c->ff, c->hidden, some);
}

int closing_run(const closing *c) {
	job j = shared(c, c->n, c->real);
	panels w[3], out = panels_of(c->out, c->heads * c->dim, c->hidden, c->heads * c->dim);
	parts(c, 0, least(WIDE, c->ff), w);
	int64_t size = most(panels_size(&out), panels_size(&w[0]) + panels_size(&w[1]) + panels_size(&w[2]));
	int64_t each = up_to(j.n, ROWS) * c->hidden;
	j.memory = room(&j, size + (j.token ? 2 : 1) * each);
	if (!j.memory) {
		free(j.token);
		return 0;
	}
	j.rows = j.memory + size;
	j.y = j.token ? j.rows + each : c->y;
	for (int64_t i = 0; j.token && i < c->n; i++)
		if (!c->real[i])
			memset(c->y + i * c->hidden, 0, c->hidden * sizeof *c->y);
	uint64_t mode = flush_denormals();
	j.taken = team_take();
	set(&j, 1, &out);
	run(&j, project_share);
	for (; j.from < c->ff; j.from += j.some) {
		j.some = least(WIDE, c->ff - j.from);
		parts(c, j.from, j.some, w);
		set(&j, 3, w);
		run(&j, feed_share);
	}
	team_leave(j.taken);
	restore_denormals(mode);
	free(j.memory);
	free(j.token);
	return !j.failed;
}
