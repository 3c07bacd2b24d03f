//go:build cgo && (linux || darwin)

package fused

// #cgo CFLAGS: -O3
// #cgo linux LDFLAGS: -ldl -lm
// #include <stdlib.h>
// #include "narrow.h"
// #include "register.h"
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

func able() bool { return C.fused_able() != 0 }

func allowAVX512(allow bool) bool {
	n := C.int(0)
	if allow {
		n = 1
	}
	return C.allow_avx512(n) != 0
}

func register(path string) error {
	if !able() {
		return errors.New("the processor has no AVX2 and FMA")
	}
	p, block, delta, product := C.CString(path), C.CString(Block), C.CString(DeltaStep), C.CString(Product)
	defer C.free(unsafe.Pointer(p))
	defer C.free(unsafe.Pointer(block))
	defer C.free(unsafe.Pointer(delta))
	defer C.free(unsafe.Pointer(product))
	if why := C.fused_register(p, block, delta, product, C.int(runtime.GOMAXPROCS(0))); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}
