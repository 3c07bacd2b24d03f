#include "gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "dot.h"
#include "narrow.h"
#include "team.h"

// A product is cut into slabs of at most DEPTH terms of its sums, and at most SIDE rows and columns. Both sides of a
// slab are packed into panels, in the order in which tiles read them. A tile is HEIGHT rows against WIDTH columns: its
// sums are registers. A block is about DOWN rows against ACROSS columns: each panel of rows stays in the first cache
// while it meets the panels of columns, which stay in the second one.
enum { DEPTH = 288, SIDE = 3072, DOWN = 256, ACROSS = 192, ALIGN = 64 };

// tile sets, or adds to, y [HEIGHT, WIDTH] the product of two panels of depth k.
typedef void tile(const float *a, const float *b, int64_t k, float *y, int64_t ld, int more);

#define TILE(NAME, TARGET, V, HEIGHT, VECTORS)                                                \
	TARGET static void NAME(const float *a, const float *b, int64_t k, float *y, int64_t ld, int more) { \
		enum { LANES = sizeof(V) / sizeof(float) };                                           \
		for (int r = 0; r < HEIGHT; r++)                                                      \
			__builtin_prefetch(y + r * ld, 1);                                                \
		V s[HEIGHT][VECTORS] = {{{0}}};                                                       \
		for (; k > 0; k--, a += HEIGHT, b += VECTORS * LANES) {                               \
			V x[VECTORS];                                                                     \
			for (int j = 0; j < VECTORS; j++)                                                 \
				memcpy(&x[j], b + j * LANES, sizeof(V));                                      \
			for (int r = 0; r < HEIGHT; r++)                                                  \
				for (int j = 0; j < VECTORS; j++)                                             \
					s[r][j] += a[r] * x[j];                                                   \
		}                                                                                     \
		for (int r = 0; r < HEIGHT; r++)                                                      \
			for (int j = 0; j < VECTORS; j++) {                                               \
				float *to = y + r * ld + j * LANES;                                           \
				V old = {0};                                                                  \
				if (more)                                                                     \
					memcpy(&old, to, sizeof old);                                             \
				s[r][j] += old;                                                               \
				memcpy(to, &s[r][j], sizeof old);                                             \
			}                                                                                 \
	}

TILE(narrow, SIMD, v8, 6, 2)
#if defined(__x86_64__)
TILE(wide, AVX512, v16, 8, 3)
#endif

enum { HIGHEST = 8, WIDEST = 48 };

// job is a slab.
typedef struct {
	tile *tile;
	int64_t height, width;
	matrix a, b;
	int64_t m, n, k;
	int64_t above, beside; // panels of a and of b
	float *left, *right;   // packed: [above, k, height] and [beside, k, width]
	float *y;
	int64_t ld;
	int more; // add to y
} job;

#if defined(__x86_64__)
// turn copies eight terms of eight lines as [8, size].
SIMD static void turn(const float *from, int64_t line, float *to, int64_t size) {
	__m256 a[8], b[8];
	for (int i = 0; i < 8; i++)
		a[i] = _mm256_loadu_ps(from + i * line);
	for (int i = 0; i < 8; i += 2) {
		b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
		b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
		for (int h = 0; h < 2; h++) {
			a[i + 2 * h] = _mm256_shuffle_ps(b[i + h], b[i + h + 2], 0x44);
			a[i + 2 * h + 1] = _mm256_shuffle_ps(b[i + h], b[i + h + 2], 0xee);
		}
	for (int i = 0; i < 4; i++) {
		_mm256_storeu_ps(to + i * size, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
		_mm256_storeu_ps(to + (i + 4) * size, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
	}
}

enum { TURNS = 8 };
#else
static void turn(const float *from, int64_t line, float *to, int64_t size) { *to = *from; }

enum { TURNS = 1 };
#endif

// pack copies a panel of lines [count, k], of which entry (i, t) is at i·line + t·term, where one of the two is 1, as
// [k, size]; what is missing is 0.
static void pack(const float *from, int64_t line, int64_t term, int64_t count, int64_t k, int64_t size, float *to) {
	if (count < size)
		memset(to, 0, k * size * sizeof *to);
	if (line == 1) {
		for (int64_t t = 0; t < k; t++, from += term, to += size)
			memcpy(to, from, count * sizeof *to);
		return;
	}
	int64_t lines = count / TURNS * TURNS, terms = k / TURNS * TURNS;
	for (int64_t t = 0; t < terms; t += TURNS)
		for (int64_t i = 0; i < lines; i += TURNS)
			turn(from + i * line + t, line, to + t * size + i, size);
	for (int64_t t = 0; t < k; t++)
		for (int64_t i = t < terms ? lines : 0; i < count; i++)
			to[t * size + i] = from[i * line + t];
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void pack_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	for (int64_t i = from; i < to; i++) {
		if (i < j->above) {
			int64_t at = i * j->height;
			pack(j->a.at + at * j->a.row, j->a.row, j->a.column, least(j->height, j->m - at), j->k, j->height,
				 j->left + at * j->k);
			continue;
		}
		int64_t at = (i - j->above) * j->width;
		pack(j->b.at + at * j->b.column, j->b.column, j->b.row, least(j->width, j->n - at), j->k, j->width,
			 j->right + at * j->k);
	}
}

// edge is a tile of which only a part is in y.
static void edge(const job *j, const float *a, const float *b, float *y, int64_t m, int64_t n) {
	float whole[HIGHEST * WIDEST];
	j->tile(a, b, j->k, whole, j->width, 0);
	for (int64_t r = 0; r < m; r++)
		for (int64_t c = 0; c < n; c++)
			y[r * j->ld + c] = whole[r * j->width + c] + (j->more ? y[r * j->ld + c] : 0);
}

static void block(const job *j, int64_t top, int64_t left) {
	int64_t bottom = least(top + DOWN / j->height, j->above), right = least(left + ACROSS / j->width, j->beside);
	for (int64_t p = top; p < bottom; p++)
		for (int64_t q = left; q < right; q++) {
			int64_t row = p * j->height, column = q * j->width;
			const float *a = j->left + row * j->k, *b = j->right + column * j->k;
			float *y = j->y + row * j->ld + column;
			int64_t m = j->m - row, n = j->n - column;
			if (m < j->height || n < j->width)
				edge(j, a, b, y, least(m, j->height), least(n, j->width));
			else
				j->tile(a, b, j->k, y, j->ld, j->more);
		}
}

static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static void multiply_share(void *of, int64_t from, int64_t to) {
	job *j = of;
	int64_t high = DOWN / j->height, wide = ACROSS / j->width, down = parts(j->above, high);
	for (int64_t i = from; i < to; i++)
		block(j, i % down * high, i / down * wide);
}

static void slab(int taken, job *j) {
	j->above = parts(j->m, j->height);
	j->beside = parts(j->n, j->width);
	team_loop(taken, pack_share, j, j->above + j->beside, 1);
	team_loop(taken, multiply_share, j, parts(j->above, DOWN / j->height) * parts(j->beside, ACROSS / j->width), 1);
}

static void slabs(int taken, job j, matrix a, matrix b, float *y, int64_t m, int64_t n, int64_t k) {
	int64_t depth = parts(k, parts(k, DEPTH));
	for (int64_t column = 0; column < n; column += SIDE)
		for (int64_t row = 0; row < m; row += SIDE)
			for (int64_t at = 0; at < k; at += depth) {
				j.m = least(SIDE, m - row), j.n = least(SIDE, n - column), j.k = least(depth, k - at);
				j.a = a, j.b = b;
				j.a.at += row * a.row + at * a.column;
				j.b.at += at * b.row + column * b.column;
				j.y = y + row * n + column, j.ld = n, j.more = at > 0;
				slab(taken, &j);
			}
}

// fastest is a job with the tile of this processor.
static job fastest(void) {
#if defined(__x86_64__)
	if (use_avx512())
		return (job){.tile = wide, .height = 8, .width = 48};
#endif
	return (job){.tile = narrow, .height = 6, .width = 16};
}

int gemm(matrix a, matrix b, float *y, int64_t m, int64_t n, int64_t k) {
	job j = fastest();
	int64_t lines = least(m, SIDE) + HIGHEST;
	float *memory;
	lines = parts(lines, ALIGN) * ALIGN;
	if (posix_memalign((void **)&memory, ALIGN, (lines + least(n, SIDE) + WIDEST) * DEPTH * sizeof *memory))
		return 0;
	j.left = memory, j.right = memory + lines * DEPTH;
	uint64_t mode = flush_denormals();
	int taken = team_take();
	slabs(taken, j, a, b, y, m, n, k);
	team_leave(taken);
	restore_denormals(mode);
	free(memory);
	return 1;
}

panels panels_of(const float *w, int64_t line, int64_t n, int64_t k) {
	job j = fastest();
	int64_t depth = parts(k, parts(k, DEPTH));
	return (panels){.w = w, .line = line, .n = n, .k = k, .width = j.width, .count = parts(n, j.width), .depth = depth};
}

int64_t panels_size(const panels *p) { return p->count * p->width * p->k; }

int64_t panels_places(const panels *p) { return p->count * parts(p->k, p->depth); }

void panels_fill(const panels *p, int64_t from, int64_t to) {
	for (int64_t i = from; i < to; i++) {
		int64_t column = i % p->count * p->width, term = i / p->count * p->depth, k = least(p->depth, p->k - term);
		pack(p->w + column * p->line + term, p->line, 1, least(p->width, p->n - column), k, p->width,
			 p->at + term * p->count * p->width + column * k);
	}
}

void rows_fill(const float *x, int64_t m, int64_t k, float *to) {
	job j = fastest();
	int64_t depth = parts(k, parts(k, DEPTH)), above = parts(m, j.height);
	for (int64_t term = 0; term < k; term += depth) {
		int64_t some = least(depth, k - term);
		for (int64_t p = 0; p < above; p++, to += j.height * some)
			pack(x + p * j.height * k + term, k, 1, least(j.height, m - p * j.height), some, j.height, to);
	}
}

void rows_times(const float *rows, int64_t m, const panels *p, int64_t from, int64_t to, float *y, int64_t ld,
                int more) {
	job j = fastest();
	int64_t column = from * p->width;
	j.m = m, j.n = least(p->n, to * p->width) - column, j.above = parts(m, j.height), j.beside = to - from;
	j.y = y, j.ld = ld;
	for (int64_t left = 0; left < j.beside; left += ACROSS / j.width)
		for (int64_t term = 0; term < p->k; term += p->depth) {
			j.k = least(p->depth, p->k - term), j.more = more || term > 0;
			j.left = (float *)rows + term * j.above * j.height;
			j.right = p->at + term * p->count * p->width + column * j.k;
			for (int64_t top = 0; top < j.above; top += DOWN / j.height)
				block(&j, top, left);
		}
}
