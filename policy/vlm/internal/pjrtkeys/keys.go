//go:build cgo

package pjrtkeys

// #include <stdlib.h>
// #include "keys.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"

	"vagen/policy/vlm/internal/keyvalue"
	"vagen/policy/vlm/internal/pjrttable"
)

// attached is the plugin whose function is replaced.
var attached struct {
	sync.Mutex
	plugin *pjrt.Plugin
}

// requestTime limits requests of a plugin that have no limit of their own.
const requestTime = time.Minute

// Create calls f, which creates a client of the plugin by go-xla, and gives it callbacks on the
// store. The store must work as long as the client does. Only one plugin of a process can have
// callbacks; no other goroutine may use the plugin for the first time meanwhile.
func Create(p *pjrt.Plugin, store keyvalue.Store, f func() error) error {
	attached.Lock()
	defer attached.Unlock()
	if attached.plugin != nil && attached.plugin != p {
		return errors.New("pjrtkeys: another plugin of this process has callbacks already")
	}
	if attached.plugin == nil {
		table, err := pjrttable.Of(p)
		if err != nil {
			return fmt.Errorf("pjrtkeys: %w", err)
		}
		create, offset, err := table.Function("PJRT_Client_Create")
		if err != nil {
			return fmt.Errorf("pjrtkeys: %w", err)
		}
		if err := table.Replace(offset, C.pjrtkeys_create(create)); err != nil {
			return fmt.Errorf("pjrtkeys: %w", err)
		}
		attached.plugin = p
	}
	// The plugin keeps the handle as long as the client lives, so it is never deleted.
	h := cgo.NewHandle(store)
	runtime.LockOSThread() // the plugin is called on this thread
	defer runtime.UnlockOSThread()
	C.pjrtkeys_use(C.uintptr_t(h))
	err := f()
	created := C.pjrtkeys_use(0)
	if err == nil && created == 0 {
		err = errors.New("pjrtkeys: no client was created, or by a version of go-xla whose arguments have no key-value callbacks")
	}
	return err
}

func storeOf(user unsafe.Pointer) keyvalue.Store {
	return cgo.Handle(uintptr(user)).Value().(keyvalue.Store)
}

// fail makes the plugin's error.
func fail(make *C.make_error, err error) *C.pjrt_error {
	code := C.int(C.CODE_INTERNAL)
	switch {
	case errors.Is(err, keyvalue.ErrNotFound):
		code = C.CODE_NOT_FOUND
	case errors.Is(err, keyvalue.ErrExists):
		code = C.CODE_ALREADY_EXISTS
	case errors.Is(err, context.DeadlineExceeded):
		code = C.CODE_DEADLINE_EXCEEDED
	}
	text := err.Error()
	message := C.CString(text)
	defer C.free(unsafe.Pointer(message))
	return C.pjrtkeys_fail(make, code, message, C.size_t(len(text)))
}

//export pjrtkeysGet
func pjrtkeysGet(a *C.get_args) *C.pjrt_error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.timeout_ms)*time.Millisecond)
	defer cancel()
	value, err := storeOf(a.user).Get(ctx, C.GoStringN(a.key, C.int(a.key_length)))
	if err != nil {
		return fail(a.error, err)
	}
	C.pjrtkeys_give(a, (*C.char)(C.CBytes(value)), C.size_t(len(value)))
	return nil
}

//export pjrtkeysTryGet
func pjrtkeysTryGet(a *C.try_get_args) *C.pjrt_error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	value, err := storeOf(a.user).TryGet(ctx, C.GoStringN(a.key, C.int(a.key_length)))
	if err != nil {
		return fail(a.error, err)
	}
	C.pjrtkeys_try_give(a, (*C.char)(C.CBytes(value)), C.size_t(len(value)))
	return nil
}

//export pjrtkeysPut
func pjrtkeysPut(a *C.put_args) *C.pjrt_error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	err := storeOf(a.user).Put(ctx, C.GoStringN(a.key, C.int(a.key_length)), C.GoBytes(unsafe.Pointer(a.value), C.int(a.value_length)))
	if err != nil {
		return fail(a.error, err)
	}
	return nil
}
