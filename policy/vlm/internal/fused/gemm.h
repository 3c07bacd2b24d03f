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

#endif
