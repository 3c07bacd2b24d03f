#ifndef VAGEN_FUSED_GEMM_H
#define VAGEN_FUSED_GEMM_H

#include <stdint.h>

// matrix is read as [rows, columns]: entry (i, j) is at i·row + j·column, and one of the two is 1.
typedef struct {
	const float *at;
	int64_t row, column;
} matrix;

// gemm sets y [m, n], contiguous, to the product of a [m, k] and b [k, n]. A number of y is the sum over k in one
// order, whatever the sizes of the other axes and the number of threads. It returns 0 for
// want of memory.
int gemm(matrix a, matrix b, float *y, int64_t m, int64_t n, int64_t k);

// panels is w [n, k], whose rows are line apart, transposed to [k, n] and in the order in which products read it.
typedef struct {
	const float *w;
	int64_t line, n, k;
	int64_t width, count; // columns of a panel; panels
	int64_t depth;        // terms of a sum that are together
	float *at;            // has panels_size numbers, of which panels_fill sets some places
} panels;

panels panels_of(const float *w, int64_t line, int64_t n, int64_t k);
int64_t panels_size(const panels *p);
int64_t panels_places(const panels *p);
void panels_fill(const panels *p, int64_t from, int64_t to);

// rows_fill puts x [m, k] in the order in which products read it. to has place for m rounded up to ROWS, a multiple of
// the heights of tiles.
enum { ROWS = 24 };
void rows_fill(const float *x, int64_t m, int64_t k, float *to);

// rows_times sets, or adds to, y [m, columns of panels from to to], whose rows are ld apart, their product with rows.
// One thread computes it, with the bits of gemm.
void rows_times(const float *rows, int64_t m, const panels *p, int64_t from, int64_t to, float *y, int64_t ld,
                int more);

#endif
