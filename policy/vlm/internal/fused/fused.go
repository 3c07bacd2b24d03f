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
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// names are those of the functions in the order in which C has them.
var names = []string{Block, DeltaStep, DeltaRule, Product, Scores, Attention, Choice, Gemm, Opening, Closing}

// narrow reports whether XLA's flags forbid it AVX-512, which then holds here, too.
func narrow() bool {
	_, isa, _ := strings.Cut(os.Getenv("XLA_FLAGS"), "--xla_cpu_max_isa=")
	isa, _, _ = strings.Cut(isa, " ")
	return isa != "" && !strings.HasPrefix(strings.ToUpper(isa), "AVX512")
}

func able() bool { return C.fused_able() != 0 }

func allowAVX512(allow bool) bool {
	n := C.int(0)
	if allow {
		n = 1
	}
	return C.allow_avx512(n) != 0
}

func usesAVX512() bool { return C.use_avx512() != 0 }

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
	allowAVX512(!narrow())
	if why := C.fused_register(p, &all[0], C.int(runtime.GOMAXPROCS(0))); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}
