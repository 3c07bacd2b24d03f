//go:build linux && cgo

package device

/*
#include <malloc.h>

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
