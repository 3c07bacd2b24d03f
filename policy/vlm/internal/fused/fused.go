//go:build cgo && (linux || darwin)

package fused

// #cgo CFLAGS: -O3
// #cgo linux LDFLAGS: -ldl -lm
// #include <stdlib.h>
// #include "register.h"
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

func able() bool { return C.fused_able() != 0 }

func register(path string) error {
	if !able() {
		return errors.New("the processor has no AVX2 and FMA")
	}
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	all := make([]*C.char, len(names))
	for i, name := range names {
		all[i] = C.CString(name)
		defer C.free(unsafe.Pointer(all[i]))
	}
	wide := C.int(1)
	if narrow() {
		wide = 0
	}
	if why := C.fused_register(p, &all[0], C.int(runtime.GOMAXPROCS(0)), wide); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}
