//go:build cgo

package fakeplugin

/*
#include <stdlib.h>
#include <string.h>
#include "../abi.h"

typedef struct {
	int code;
	size_t length;
	char message[1000];
} fake_error;

static pjrt_error *new_error(int code, const char *message, size_t length) {
	fake_error *e = calloc(1, sizeof *e);
	e->code = code;
	e->length = length < sizeof e->message ? length : sizeof e->message;
	memcpy(e->message, message, e->length);
	return (pjrt_error *)e;
}

// exchange are the keys of a client, which it is given as options.
typedef struct {
	char *put, *value, *get;
	int timeout_ms;
	char got[1000]; // out
	size_t length;  // out
} exchange;

// create puts a value, and gets that of another process.
static pjrt_error *create(create_args *a) {
	exchange *x = (exchange *)a->options;
	make_error make = new_error;
	if (!a->get || !a->put || !a->try_get) {
		return new_error(CODE_INTERNAL, "no callbacks", 12);
	}
	put_args p = {.size = sizeof p, .key = x->put, .key_length = strlen(x->put), .value = x->value, .value_length = strlen(x->value), .error = &make, .user = a->put_user};
	pjrt_error *e = a->put(&p);
	if (e) {
		return e;
	}
	get_args g = {.size = sizeof g, .key = x->get, .key_length = strlen(x->get), .timeout_ms = x->timeout_ms, .error = &make, .user = a->get_user};
	if (x->timeout_ms == 0) { // does not wait
		try_get_args t = {.size = sizeof t, .key = g.key, .key_length = g.key_length, .error = &make, .user = a->try_get_user};
		e = a->try_get(&t);
		g.value = t.value;
		g.value_length = t.value_length;
		g.free_value = t.free_value;
	} else {
		e = a->get(&g);
	}
	if (e) {
		return e;
	}
	x->length = g.value_length;
	memcpy(x->got, g.value, g.value_length);
	g.free_value(g.value);
	return NULL;
}

static void *create_address(void) { return (void *)create; }

static pjrt_error *call(void *f, create_args *a) { return ((create_function)f)(a); }
*/
import "C"

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"

	"vagen/policy/vlm/internal/pjrttable"
)

// New returns a plugin whose only function is that for creating clients.
func New() *pjrt.Plugin {
	field, _ := reflect.TypeFor[pjrt.Plugin]().FieldByName("api")
	api := field.Type.Elem()
	table := C.calloc(1, C.size_t(api.Size()))
	set := func(name string, value uintptr) {
		f, ok := api.FieldByName(name)
		if !ok {
			panic("go-xla's PJRT_Api has no field " + name)
		}
		*(*uintptr)(unsafe.Add(table, f.Offset)) = value
	}
	set("struct_size", api.Size())
	set("PJRT_Client_Create", uintptr(C.create_address()))
	p := &pjrt.Plugin{}
	*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(p), field.Offset)) = table
	return p
}

// Client creates a client, which puts value at the key put, and returns what it gets at the key
// get. With a wait of 0 it does not wait. Callers with an old interface pass a struct without
// the callback for that.
func Client(p *pjrt.Plugin, put, value, get string, wait time.Duration) (string, error) {
	return client(p, put, value, get, wait, C.sizeof_create_args)
}

// OldClient is Client by a caller with an older interface, whose arguments end before the last
// callback.
func OldClient(p *pjrt.Plugin) error {
	_, err := client(p, "key", "", "key", 0, C.sizeof_create_args-16)
	return err
}

func client(p *pjrt.Plugin, put, value, get string, wait time.Duration, size C.size_t) (string, error) {
	table, err := pjrttable.Of(p)
	if err != nil {
		return "", err
	}
	create, _, err := table.Function("PJRT_Client_Create")
	if err != nil {
		return "", err
	}
	x := (*C.exchange)(C.calloc(1, C.sizeof_exchange))
	x.put, x.value, x.get, x.timeout_ms = C.CString(put), C.CString(value), C.CString(get), C.int(wait.Milliseconds())
	a := (*C.create_args)(C.calloc(1, C.sizeof_create_args))
	a.size, a.options = size, unsafe.Pointer(x)
	defer func() {
		for _, m := range []unsafe.Pointer{unsafe.Pointer(x.put), unsafe.Pointer(x.value), unsafe.Pointer(x.get), unsafe.Pointer(x), unsafe.Pointer(a)} {
			C.free(m)
		}
	}()
	if e := C.call(create, a); e != nil {
		failed := (*C.fake_error)(unsafe.Pointer(e))
		defer C.free(unsafe.Pointer(e))
		return "", fmt.Errorf("code %d: %s", failed.code, C.GoStringN(&failed.message[0], C.int(failed.length)))
	}
	return C.GoStringN(&x.got[0], C.int(x.length)), nil
}
