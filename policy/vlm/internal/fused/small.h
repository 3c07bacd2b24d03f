#ifndef VAGEN_FUSED_SMALL_H
#define VAGEN_FUSED_SMALL_H

#include <stdint.h>

// Products of matrices that are in the second cache, by one thread.

// multiply sets, or adds to, y [m, n] the product of a, of which entry (i, t) is at i·row + t·term, and b [k, n]. m is
// a multiple of 8, n one of 32.
typedef void multiply(const float *a, int64_t row, int64_t term, const float *b, float *y, int64_t m, int64_t n,
                      int64_t k, int more);

// small_product returns the fastest one for this processor. All have the same bits.
multiply *small_product(void);

// WIDE divides the number of columns of products.
enum { WIDE = 32 };

static inline int64_t fill(int64_t width) { return (width + WIDE - 1) / WIDE * WIDE; }

#endif
