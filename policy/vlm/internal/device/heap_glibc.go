//go:build linux && cgo

package device

/*
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// set_default sets a parameter of glibc's heap unless the environment sets it.
static void set_default(int param, int value, const char *variable, const char *tunable) {
#ifdef __GLIBC__
	const char *tunables = getenv("GLIBC_TUNABLES");
	if (!getenv(variable) && !(tunables && strstr(tunables, tunable)))
		mallopt(param, value);
#endif
}

// XLA makes few, large allocations. glibc fixes the number of its heaps when the
// second thread allocates, which is before any Go code runs. Its default is 8 per
// processor. What is freed in one heap is not reused by threads of another, and pages
// that have been used stay in memory, so there is one.
//
// Blocks of up to 32 MB, glibc's maximum, are allocated from heaps. Blocks mapped
// directly from the system have every page cleared each time, which took a sixth
// of a training step. glibc raises this threshold by itself, but late and not
// deterministically.
__attribute__((constructor)) static void set_heap_defaults(void) {
#ifdef __GLIBC__
	set_default(M_ARENA_MAX, 1, "MALLOC_ARENA_MAX", "arena_max");
	set_default(M_MMAP_THRESHOLD, 32 << 20, "MALLOC_MMAP_THRESHOLD_", "mmap_threshold");
	set_default(M_TRIM_THRESHOLD, 64 << 20, "MALLOC_TRIM_THRESHOLD_", "trim_threshold");
#endif
}

// set_reuse has large blocks come from the heap, which returns nothing to the system, or takes that back.
static void set_reuse(int on) {
#ifdef __GLIBC__
	set_default(M_MMAP_MAX, on ? 0 : 65536, "MALLOC_MMAP_MAX_", "mmap_max");
	set_default(M_TRIM_THRESHOLD, on ? 1 << 30 : 64 << 20, "MALLOC_TRIM_THRESHOLD_", "trim_threshold");
#endif
}

static void trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
*/
import "C"

import "sync"

// reusing counts the callers of Reuse that are not done.
var reusing struct {
	sync.Mutex
	callers int
}

// Reuse has the programs of a large model that run until done is called use each other's memory, of which Linux
// otherwise clears the pages each time. done returns it to the system.
func (d *Device) Reuse() (done func()) {
	if d.Accelerator() || !d.Large() {
		return func() {}
	}
	reuse(1)
	return func() {
		if reuse(-1) == 0 {
			Trim()
		}
	}
}

// reuse adds to the callers of Reuse, and returns how many there are.
func reuse(more int) int {
	reusing.Lock()
	defer reusing.Unlock()
	was := reusing.callers > 0
	reusing.callers += more
	if is := reusing.callers > 0; is != was {
		C.set_reuse(C.int(reusing.callers))
	}
	return reusing.callers
}

// Trim returns unused pages of the C library's heaps to the system. Compilation
// leaves many of them, and so do buffers of sizes that are not used again. It does
// nothing with C libraries other than glibc.
func Trim() { C.trim() }
