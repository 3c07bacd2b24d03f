package safetensors

import (
	"os"
	"syscall"
)

// dropPages gives the whole pages inside [begin, end) back. The mapping is of a
// file and read-only, so that a later access reads them again. It is a hint: a
// failure changes nothing but the memory in use.
func dropPages(mapped []byte, begin, end int64) {
	page := int64(os.Getpagesize())
	begin = (begin + page - 1) / page * page
	if end < int64(len(mapped)) {
		end = end / page * page
	}
	if begin < end {
		_ = syscall.Madvise(mapped[begin:end], syscall.MADV_DONTNEED)
	}
}
