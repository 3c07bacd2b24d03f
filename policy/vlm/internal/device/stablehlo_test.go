package device

import (
	"reflect"
	"testing"

	"github.com/gomlx/go-xla/stablehlo"
	"github.com/stretchr/testify/require"
)

// A version of GoMLX or go-xla without the fields and names that are read is an error that
// names them; tests of kernels, loops and donated inputs find the fields on XLA.
func TestUnknownVersionsAreErrors(t *testing.T) {
	for want, f := range map[string]func(){
		"has no field fn": func() { unexported(reflect.ValueOf(&struct{ other int }{}), "fn") },
		"no struct":       func() { unexported(reflect.ValueOf(3), "fn") },
		"found *int, must be a *stablehlo.Value": func() {
			pointer[stablehlo.Value](reflect.ValueOf(new(int)))
		},
		"no operation is named While2": func() { setOp(&stablehlo.Statement{}, "While2") },
	} {
		require.ErrorContains(t, catch("compile x", func() error { f(); return nil }), want)
	}
}
