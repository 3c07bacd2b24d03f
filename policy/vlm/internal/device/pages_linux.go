package device

import "syscall"

// hugePage is the size of a large page, or a multiple of it.
const hugePage = 2 << 20

// madvise's constants: prefer large pages, and create them now (since Linux 6.1;
// earlier kernels do it in the background).
const (
	adviseHuge     = 14
	adviseCollapse = 25
)

func hugePages(s addressRange) {
	for at := (s.from + hugePage - 1) &^ (hugePage - 1); at+hugePage <= s.to; at += hugePage {
		for _, advice := range []uintptr{adviseHuge, adviseCollapse} {
			// It is advice: after an error the page stays as it is.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, hugePage, advice)
		}
	}
}
