package safetensors

import (
	"os"
	"syscall"
)

// dropPages releases the whole pages inside [begin, end). The mapping is read-only and
// backed by a file, so a later access reads them again. It is a hint: a failure only
// affects memory use.
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
