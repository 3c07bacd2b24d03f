//go:build cgo

package xla

// #include <stddef.h>
//
// typedef struct {
//	size_t size;
//	void *extensions;
//	void *of;
//	const char *result; // out
//	size_t length;      // out
// } kind_args;
//
// // kind returns an error of PJRT or NULL.
// static void *kind(void *f, kind_args *a) { return ((void *(*)(kind_args *))f)(a); }
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"

	"vagen/internal/durable"
	"vagen/policy/vlm/internal/pjrttable"
)

// Describe returns the kinds of the first n devices of a backend that Start has made, such as "NVIDIA
// H100 80GB HBM3", and the version of its plugin: that of PJRT, what the plugin says about its
// platform, and the SHA-256 of its file, because plugins for CPUs say no more than "cpu".
func Describe(b compute.Backend, n int) (kinds []string, version string, err error) {
	client, err := clientOf(b)
	if err != nil {
		return nil, "", fmt.Errorf("xla: %w", err)
	}
	for _, d := range client.AddressableDevices()[:min(n, len(client.AddressableDevices()))] {
		kind, err := kindOf(client.Plugin(), d)
		if err != nil {
			return nil, "", fmt.Errorf("xla: kind of a device: %w", err)
		}
		kinds = append(kinds, kind)
	}
	sum, err := durable.SumOf(client.Plugin().Path())
	if err != nil {
		return nil, "", fmt.Errorf("xla: the plugin's file: %w", err)
	}
	major, minor := client.Plugin().Version()
	return kinds, fmt.Sprintf("PJRT %d.%d, %s %s, SHA-256 %s", major, minor, client.Platform(), client.PlatformVersion(),
		sum.SHA256), nil
}

// clientOf returns GoMLX's client, which it does not export.
func clientOf(b compute.Backend) (*pjrt.Client, error) {
	made, ok := b.(*xla.Backend)
	if !ok || made == nil {
		return nil, fmt.Errorf("%T is no backend of XLA", b)
	}
	f, ok := reflect.TypeFor[xla.Backend]().FieldByName("client")
	if !ok || f.Type != reflect.TypeFor[*pjrt.Client]() {
		return nil, errors.New("GoMLX's Backend has no client of PJRT named client")
	}
	client := *(**pjrt.Client)(unsafe.Add(unsafe.Pointer(made), f.Offset))
	if !client.IsValid() {
		return nil, errors.New("the client is closed")
	}
	return client, nil
}

// kindOf calls PJRT_DeviceDescription_Kind, which go-xla does not wrap.
func kindOf(p *pjrt.Plugin, d *pjrt.Device) (string, error) {
	description, err := d.GetDescription()
	if err != nil {
		return "", err
	}
	f, ok := reflect.TypeFor[pjrt.DeviceDescription]().FieldByName("deviceDescription")
	if !ok || f.Type.Kind() != reflect.Pointer {
		return "", errors.New("go-xla's DeviceDescription has no pointer named deviceDescription")
	}
	table, err := pjrttable.Of(p)
	if err != nil {
		return "", err
	}
	call, _, err := table.Function("PJRT_DeviceDescription_Kind")
	if err != nil {
		return "", err
	}
	a := C.kind_args{of: *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(description), f.Offset))}
	a.size = C.size_t(unsafe.Sizeof(a))
	if C.kind(call, &a) != nil {
		return "", errors.New("the plugin does not say the kind")
	}
	return C.GoStringN(a.result, C.int(a.length)), nil
}
