//go:build linux && cgo

package device

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// settle sets a parameter of glibc's heap where the environment does not.
static void settle(int param, int value, const char *variable, const char *tunable) {
#ifdef __GLIBC__
	const char *tunables = getenv("GLIBC_TUNABLES");
	if (!getenv(variable) && !(tunables && strstr(tunables, tunable)))
		mallopt(param, value);
#endif
}

// XLA allocates seldom and much. glibc settles the number of its heaps when the
// second thread allocates, which is before any Go code runs; it would take 8 for
// every processor, and gaps in 2 heaps are fewer.
//
// Blocks of up to 32 MB, the most that glibc admits, come from heaps: of those that
// come straight from the system every page has to be cleared each time, which took a
// sixth of a training step. Where such blocks come and go glibc would move the limit
// up by itself, late and by chance.
__attribute__((constructor)) static void settleHeaps(void) {
#ifdef __GLIBC__
	settle(M_ARENA_MAX, 2, "MALLOC_ARENA_MAX", "arena_max");
	settle(M_MMAP_THRESHOLD, 32 << 20, "MALLOC_MMAP_THRESHOLD_", "mmap_threshold");
	settle(M_TRIM_THRESHOLD, 64 << 20, "MALLOC_TRIM_THRESHOLD_", "trim_threshold");
#endif
}

static void trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
*/
import "C"

// Trim gives pages of the C library's heaps that nothing is on back to the system:
// a compiler leaves many of them, and so do buffers of other sizes than those that
// come next. With other C libraries than glibc nothing happens.
func Trim() { C.trim() }
