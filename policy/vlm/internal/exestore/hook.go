//go:build cgo

package exestore

// #include <stdlib.h>
// #include "hook.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"

	"vagen/internal/durable"
	"vagen/policy/vlm/internal/pjrttable"
)

// attached are the plugins whose compilations this package receives, by slot.
var attached struct {
	sync.Mutex
	plugins []*attachment
}

type attachment struct {
	plugin *pjrt.Plugin
	id     func() (string, error) // identifies the plugin's file
}

// Attach has compilations by a plugin call this package. It must be called before the
// plugin has a client; later calls do nothing. The checksum is that of the plugin's
// file; if it is empty, it is computed when it is needed.
func Attach(p *pjrt.Plugin, checksum string) error {
	attached.Lock()
	defer attached.Unlock()
	for _, a := range attached.plugins {
		if a.plugin == p {
			return nil
		}
	}
	slot := len(attached.plugins)
	if slot == C.MAX_PLUGINS {
		return fmt.Errorf("exestore: %d plugins are attached, at most that many are possible", slot)
	}
	table, err := pjrttable.Of(p)
	if err != nil {
		return fmt.Errorf("exestore: %w", err)
	}
	f, compile, err := functionsOf(table)
	if err != nil {
		return fmt.Errorf("exestore: %w", err)
	}
	if err := table.Replace(compile, C.exestore_slot(C.int(slot), &f)); err != nil {
		return fmt.Errorf("exestore: %w", err)
	}
	id := func() (string, error) { return checksum, nil }
	if checksum == "" {
		id = sync.OnceValues(func() (string, error) {
			sum, err := durable.SumOf(p.Path())
			return sum.SHA256, err
		})
	}
	attached.plugins = append(attached.plugins, &attachment{plugin: p, id: id})
	return nil
}

// functionsOf returns the functions of the table that this package calls, and where in the table
// that for compiling is.
func functionsOf(t pjrttable.Table) (f C.functions, compile uintptr, err error) {
	for _, x := range []struct {
		name string
		to   unsafe.Pointer
	}{
		{"PJRT_Error_Destroy", unsafe.Pointer(&f.destroy_error)},
		{"PJRT_Error_Message", unsafe.Pointer(&f.message)},
		{"PJRT_Client_Compile", unsafe.Pointer(&f.compile)},
		{"PJRT_Executable_DeserializeAndLoad", unsafe.Pointer(&f.load)},
		{"PJRT_Executable_Serialize", unsafe.Pointer(&f.serialize)},
		{"PJRT_LoadedExecutable_GetExecutable", unsafe.Pointer(&f.executable)},
		{"PJRT_Executable_Destroy", unsafe.Pointer(&f.destroy_executable)},
		{"PJRT_Client_PlatformVersion", unsafe.Pointer(&f.platform_version)},
		{"PJRT_Client_AddressableDevices", unsafe.Pointer(&f.devices)},
		{"PJRT_Device_GetDescription", unsafe.Pointer(&f.description)},
		{"PJRT_DeviceDescription_Kind", unsafe.Pointer(&f.kind)},
		{"PJRT_DeviceDescription_DebugString", unsafe.Pointer(&f.describe)},
	} {
		function, offset, err := t.Function(x.name)
		if err != nil {
			return f, 0, err
		}
		*(*unsafe.Pointer)(x.to) = function
		if x.name == "PJRT_Client_Compile" {
			compile = offset
		}
	}
	return f, compile, nil
}

// compilation is a call of PJRT_Client_Compile within Store.Compile.
type compilation struct {
	store  *Store
	key    key
	called bool
}

// Compile calls f, which compiles by GoMLX: programs that are in the store are loaded,
// and others are added to it. A nil store only calls f.
func (s *Store) Compile(f func() error) error {
	if s == nil {
		return f()
	}
	c := &compilation{store: s}
	h := cgo.NewHandle(c)
	defer h.Delete()
	runtime.LockOSThread() // the plugin is called on this thread
	defer runtime.UnlockOSThread()
	C.exestore_use(C.uintptr_t(h))
	defer C.exestore_use(0)
	err := f()
	if err == nil && !c.called {
		s.report("executables are not kept",
			errors.New("the plugin was called without package exestore; its log when the plugin started has the reason"))
	}
	return err
}

//export exestoreCompile
func exestoreCompile(h C.uintptr_t, slot C.int, a *C.compile_args) (e *C.pjrt_error) {
	c := cgo.Handle(h).Value().(*compilation)
	c.called = true
	if c.load(slot, a) {
		return nil
	}
	if e := C.exestore_compile(slot, a); e != nil {
		return e
	}
	c.store.compiled.Add(1)
	if c.key != (key{}) {
		if err := message(C.exestore_serialize(slot, a, h)); err != nil {
			c.store.report("an executable cannot be kept", err)
		}
	}
	return nil
}

// load sets the compilation's key and loads the program from the store.
func (c *compilation) load(slot C.int, a *C.compile_args) (ok bool) {
	if dumps() {
		c.store.report("executables are not kept", errors.New("XLA_FLAGS has XLA write files about what it compiles"))
		return false
	}
	attached.Lock()
	plugin := attached.plugins[slot]
	attached.Unlock()
	id, err := plugin.id()
	if err != nil {
		c.store.report("executables are not kept", err)
		return false
	}
	var text *C.char
	if err := message(C.exestore_client(slot, a.client, &text)); err != nil {
		c.store.report("executables are not kept", err)
		return false
	}
	defer C.free(unsafe.Pointer(text))
	c.key = newKey(
		id, C.GoString(text), machine(), environment(), c.store.opts.Choices,
		view(a.program.format, a.program.format_length), view(a.options, a.options_length),
		view(a.program.code, a.program.code_length),
	)
	data, ok := c.store.read(c.key)
	if !ok {
		return false
	}
	if err := message(C.exestore_load(slot, a, unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)))); err != nil {
		c.store.report("an executable cannot be loaded and is compiled", err)
		return false
	}
	c.store.loaded.Add(1)
	return true
}

//export exestoreSave
func exestoreSave(h C.uintptr_t, data unsafe.Pointer, length C.size_t) {
	c := cgo.Handle(h).Value().(*compilation)
	c.store.write(c.key, unsafe.Slice((*byte)(data), int(length)))
}

// view is a C text without a copy.
func view(text *C.char, length C.size_t) string {
	return unsafe.String((*byte)(unsafe.Pointer(text)), int(length))
}

// message frees an error's text.
func message(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return errors.New(C.GoString(text))
}
