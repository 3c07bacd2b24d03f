//go:build cgo

package exestore

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/pjrttable"
)

// A plugin or a version of go-xla that differs from what is expected is left as it is.
func TestUnknownTablesAreRefused(t *testing.T) {
	require.ErrorContains(t, Attach(&pjrt.Plugin{}, "sum"), "no table of functions")

	field, ok := reflect.TypeFor[pjrt.Plugin]().FieldByName("api")
	require.True(t, ok)
	raw := make([]uint64, field.Type.Elem().Size()/8)
	at := pjrttable.Table{Start: unsafe.Pointer(unsafe.SliceData(raw)), Kind: field.Type.Elem()}
	_, _, err := functionsOf(at)
	require.ErrorContains(t, err, "the plugin has no PJRT_Error_Destroy", "a table that ends before it")
	size, ok := at.Kind.FieldByName("struct_size")
	require.True(t, ok)
	raw[size.Offset/8] = uint64(at.Kind.Size())
	_, _, err = functionsOf(at)
	require.ErrorContains(t, err, "the plugin has no PJRT_Error_Destroy", "an empty entry")
	for i := range raw[5:] {
		raw[5+i] = 1 // any address, which is not called
	}
	load, ok := at.Kind.FieldByName("PJRT_Executable_DeserializeAndLoad")
	require.True(t, ok)
	raw[load.Offset/8] = 0
	_, _, err = functionsOf(at)
	require.ErrorContains(t, err, "the plugin has no PJRT_Executable_DeserializeAndLoad")
	raw[load.Offset/8] = 1
	_, compile, err := functionsOf(at)
	require.NoError(t, err)
	n, err := at.Size()
	require.NoError(t, err)
	require.Equal(t, at.Kind.Size(), n)
	entry, ok := at.Kind.FieldByName("PJRT_Client_Compile")
	require.True(t, ok)
	require.Equal(t, entry.Offset, compile)

	version, ok := at.Kind.FieldByName("pjrt_api_version")
	require.True(t, ok)
	(*pjrttable.Version)(unsafe.Pointer(&raw[version.Offset/8])).Major = 1
	_, _, err = functionsOf(at)
	require.ErrorContains(t, err, "version 1.0 of PJRT, must be 0")

	at.Kind = reflect.TypeFor[struct{ struct_size uint64 }]()
	_, _, err = functionsOf(at)
	require.ErrorContains(t, err, "no field pjrt_api_version")
}
