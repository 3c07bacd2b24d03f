package safetensors

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// Reader gives access to the tensors of one file or of a set of shards.
// It is safe for concurrent use.
type Reader struct {
	mu       sync.RWMutex // held for writing only by Close
	closed   bool
	label    string // for messages: the file or the folder
	sources  []*source
	names    []string
	tensors  map[string]place
	metadata map[string]string
}

type place struct {
	span
	src *source
}

// Open opens one file and checks it in full except for the values. The file
// must not be truncated while the Reader is open.
func Open(path string) (*Reader, error) { return open(path, true) }

func open(path string, mapping bool) (*Reader, error) {
	r := &Reader{label: path, tensors: map[string]place{}}
	head, src, err := r.add(path, mapping)
	if err != nil {
		return nil, err
	}
	for _, s := range head.spans {
		r.names = append(r.names, s.Name)
		r.tensors[s.Name] = place{s, src}
	}
	return r, nil
}

// add opens another file. The error includes its name.
func (r *Reader) add(path string, mapping bool) (*header, *source, error) {
	src, head, err := openSource(path, mapping)
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	r.sources = append(r.sources, src)
	if r.metadata == nil {
		r.metadata = map[string]string{}
	}
	maps.Copy(r.metadata, head.metadata)
	return head, src, nil
}

// Names returns the names of all tensors, in the order of the data; shards
// follow each other in the order of their file names.
func (r *Reader) Names() []string { return slices.Clone(r.names) }

// Metadata returns the strings in the header. With shards these are merged; values of later
// shards replace those of earlier ones.
func (r *Reader) Metadata() map[string]string { return maps.Clone(r.metadata) }

// Info describes the named tensor and reports whether there is one.
func (r *Reader) Info(name string) (Tensor, bool) {
	p, ok := r.tensors[name]
	return p.Tensor.clone(), ok
}

// Shard returns the base name of the file that contains the named tensor, "" if there is no
// such tensor.
func (r *Reader) Shard(name string) string {
	p, ok := r.tensors[name]
	if !ok {
		return ""
	}
	return filepath.Base(p.src.path)
}

// Bytes returns the tensor's little-endian bytes, row-major. Where the platform
// maps files, they are a view of the map, which must not be written to and is
// invalid after Close; on other platforms they are a copy. An error wraps ErrNotFound or
// ErrClosed.
func (r *Reader) Bytes(name string) ([]byte, error) {
	var b []byte
	err := r.with(name, func(p place) (err error) {
		b, err = p.src.view(p.span)
		return err
	})
	return b, err
}

// Release reports to the system that the pages of the tensor's view are not needed for
// now. The view stays valid; accessing it reads the file again. Call it after copying
// the bytes to a device, so that they do not occupy memory twice.
func (r *Reader) Release(name string) error {
	return r.with(name, func(p place) error {
		p.src.release(p.span)
		return nil
	})
}

// with runs fn on the named tensor and delays Close until fn returns.
func (r *Reader) with(name string, fn func(place) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return fmt.Errorf("safetensors: %s: %w", r.label, ErrClosed)
	}
	p, ok := r.tensors[name]
	if !ok {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", r.label, name, ErrNotFound)
	}
	if err := fn(p); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %q: %w", p.src.path, name, err)
	}
	return nil
}

// Close releases the files. It waits for conversions in progress; views from
// Bytes must not be used any more. Closing again does nothing.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return r.closeAll()
}

func (r *Reader) closeAll() error {
	var first error
	for _, s := range r.sources {
		if err := s.close(); err != nil && first == nil {
			first = fmt.Errorf("safetensors: %s: %w", s.path, err)
		}
	}
	return first
}
