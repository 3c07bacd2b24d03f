package device

import (
	"cmp"
	"reflect"
	"slices"
	"unsafe"
)

// hostAddress returns the address of the array in host memory, nil if it has none.
func (a *Array) hostAddress() unsafe.Pointer {
	if a.buffer == nil || a.dev.pure || a.dev.Accelerator() {
		return nil
	}
	flat, err := a.buffer.Data()
	if err != nil {
		return nil
	}
	return reflect.ValueOf(flat).UnsafePointer()
}

// span is an address range of the process.
type span struct{ from, to uintptr }

// maxGap is the largest gap between two arrays in one span. It covers the
// allocator's headers and small arrays between them.
const maxGap = 64 << 10

// HugePages asks the system to keep long-lived arrays in large pages. Reading a
// model's weights from small pages takes up to a fifth longer because of address
// translation. If the system does not support it, nothing changes.
func HugePages(arrays []*Array) {
	var spans []span
	for _, a := range arrays {
		if p := uintptr(a.hostAddress()); p != 0 {
			spans = append(spans, span{p, p + uintptr(a.Bytes())})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for len(spans) > 0 {
		s, n := spans[0], 1
		for ; n < len(spans) && spans[n].from <= s.to+maxGap; n++ {
			s.to = max(s.to, spans[n].to)
		}
		hugePages(s)
		spans = spans[n:]
	}
}
