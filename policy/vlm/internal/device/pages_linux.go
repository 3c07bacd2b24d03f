package device

import "syscall"

// hugePage is the size of a large page, or a multiple of it.
const hugePage = 2 << 20

// Of madvise: prefer large pages, and make them now (since Linux 6.1; before, the
// system does in its own time).
const (
	adviseHuge     = 14
	adviseCollapse = 25
)

func hugePages(s span) {
	for at := (s.from + hugePage - 1) &^ (hugePage - 1); at+hugePage <= s.to; at += hugePage {
		for _, advice := range []uintptr{adviseHuge, adviseCollapse} {
			// It is advice: an error means that the page stays as it is.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, hugePage, advice)
		}
	}
}
