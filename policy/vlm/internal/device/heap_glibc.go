//go:build linux && cgo

package device

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// Large blocks are those of 1 MB. Otherwise of 32 MB, which is as far as glibc
// itself moves the limit up when such blocks come and go.
static void blocks(int straight) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, straight ? 1 << 20 : 32 << 20);
	mallopt(M_TRIM_THRESHOLD, straight ? 1 << 20 : 64 << 20);
	if (straight)
		malloc_trim(0);
#endif
}

static void trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

// glibc settles the number of its heaps when the second thread allocates, which is
// before any Go code runs. It would take 8 for every processor; XLA allocates
// seldom and much, and gaps in 2 heaps are fewer. Users' own settings stand.
__attribute__((constructor)) static void fewHeaps(void) {
#ifdef __GLIBC__
	const char *tunables = getenv("GLIBC_TUNABLES");
	if (!getenv("MALLOC_ARENA_MAX") && !(tunables && strstr(tunables, "arena_max")))
		mallopt(M_ARENA_MAX, 2);
#endif
}
*/
import "C"

// ReturnMemory makes the C library take large buffers straight from the system
// and give them back when they are freed, until the returned function is called.
// XLA's buffers of a training step are of many sizes; carved from heaps, as they
// are otherwise, they leave gaps that take as much memory as the step. It costs
// some time where buffers come and go quickly, as in decoding. The setting is the
// whole process's. With other C libraries than glibc nothing happens.
func ReturnMemory() (restore func()) {
	C.blocks(1)
	return func() { C.blocks(0) }
}

// trim gives pages of the C library's heaps that nothing is on back to the system.
// A compiler leaves many of them.
func trim() { C.trim() }
