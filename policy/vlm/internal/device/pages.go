package device

import (
	"cmp"
	"slices"
	"unsafe"
)

// place is where XLA keeps an array in the machine's memory, nil where it does not.
func (a *Array) place() unsafe.Pointer {
	b, ok := a.buffer.(interface {
		UnsafePointer() (unsafe.Pointer, error)
	})
	if !ok || a.dev.Accelerator() {
		return nil
	}
	p, err := b.UnsafePointer()
	if err != nil {
		return nil
	}
	return p
}

// span is a stretch of the process's memory.
type span struct{ from, to uintptr }

// apart is how far two arrays may be from each other in one span: what an allocator
// and small arrays put between them.
const apart = 64 << 10

// HugePages asks the system to keep arrays that stay for long in large pages: reading
// the weights of a model in small ones takes up to a fifth longer, as the processor
// has to look up where each is. Where the system does not, nothing changes.
func HugePages(arrays []*Array) {
	var spans []span
	for _, a := range arrays {
		if p := uintptr(a.place()); p != 0 {
			spans = append(spans, span{p, p + uintptr(a.Bytes())})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for len(spans) > 0 {
		s, n := spans[0], 1
		for ; n < len(spans) && spans[n].from <= s.to+apart; n++ {
			s.to = max(s.to, spans[n].to)
		}
		hugePages(s)
		spans = spans[n:]
	}
}
