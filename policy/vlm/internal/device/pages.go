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

// addressRange is an address range of the process.
type addressRange struct{ from, to uintptr }

// maxGap is the largest gap between two arrays in one addressRange. It covers the
// allocator's headers and small arrays between them.
const maxGap = 64 << 10

// HugePages asks the system to keep long-lived arrays in large pages. Reading a
// model's weights from small pages takes up to a fifth longer because of address
// translation. If the system does not support it, nothing changes.
func HugePages(arrays []*Array) {
	var ranges []addressRange
	for _, a := range arrays {
		if p := uintptr(a.hostAddress()); p != 0 {
			ranges = append(ranges, addressRange{p, p + uintptr(a.Bytes())})
		}
	}
	slices.SortFunc(ranges, func(a, b addressRange) int { return cmp.Compare(a.from, b.from) })
	for len(ranges) > 0 {
		s, n := ranges[0], 1
		for ; n < len(ranges) && ranges[n].from <= s.to+maxGap; n++ {
			s.to = max(s.to, ranges[n].to)
		}
		hugePages(s)
		ranges = ranges[n:]
	}
}
