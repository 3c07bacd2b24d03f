//go:build cgo

package pjrttable

// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// Table is a plugin's table of functions.
type Table struct {
	Field *unsafe.Pointer // where go-xla holds the table's address
	Start unsafe.Pointer
	Kind  reflect.Type // the struct, by go-xla's header
}

// Of returns the table of a plugin.
func Of(p *pjrt.Plugin) (Table, error) {
	f, ok := reflect.TypeFor[pjrt.Plugin]().FieldByName("api")
	if !ok || f.Type.Kind() != reflect.Pointer || f.Type.Elem().Kind() != reflect.Struct {
		return Table{}, errors.New("go-xla's Plugin has no pointer to a struct named api")
	}
	t := Table{Field: (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(p), f.Offset)), Kind: f.Type.Elem()}
	if t.Start = *t.Field; t.Start == nil {
		return Table{}, errors.New("the plugin has no table of functions")
	}
	return t, nil
}

const word = unsafe.Sizeof(uintptr(0))

// field returns the offset of a field in the table.
func (t Table) field(name string, kind reflect.Kind, size uintptr) (uintptr, error) {
	f, ok := t.Kind.FieldByName(name)
	if !ok || f.Type.Kind() != kind || f.Type.Size() != size {
		return 0, fmt.Errorf("go-xla's PJRT_Api has no field %s as expected", name)
	}
	return f.Offset, nil
}

// Version is a struct PJRT_Api_Version.
type Version struct {
	size         uintptr
	extensions   unsafe.Pointer
	Major, Minor int32
}

// Size returns the size of the table in bytes, after checking the version of PJRT.
func (t Table) Size() (uintptr, error) {
	at, err := t.field("struct_size", reflect.Uint64, word)
	version, err2 := t.field("pjrt_api_version", reflect.Struct, unsafe.Sizeof(Version{}))
	if err := errors.Join(err, err2); err != nil {
		return 0, err
	}
	if v := (*Version)(unsafe.Add(t.Start, version)); v.Major != 0 {
		return 0, fmt.Errorf("the plugin has version %d.%d of PJRT, must be 0", v.Major, v.Minor)
	}
	return *(*uintptr)(unsafe.Add(t.Start, at)), nil
}

// Function returns a function and its offset in the table. The plugin must have it.
func (t Table) Function(name string) (f unsafe.Pointer, offset uintptr, err error) {
	size, err := t.Size()
	if err != nil {
		return nil, 0, err
	}
	if offset, err = t.field(name, reflect.Pointer, word); err != nil {
		return nil, 0, err
	}
	if offset+word > size || *(*unsafe.Pointer)(unsafe.Add(t.Start, offset)) == nil {
		return nil, 0, fmt.Errorf("the plugin has no %s", name)
	}
	return *(*unsafe.Pointer)(unsafe.Add(t.Start, offset)), offset, nil
}

// Replace has go-xla use a copy of the table with another function at an offset. The copy is never
// freed, because go-xla may use it as long as the process lives.
func (t Table) Replace(offset uintptr, f unsafe.Pointer) error {
	size, err := t.Size()
	if err != nil {
		return err
	}
	table := C.malloc(C.size_t(size))
	C.memcpy(table, t.Start, C.size_t(size))
	*(*unsafe.Pointer)(unsafe.Add(table, offset)) = f
	*t.Field = table
	return nil
}
