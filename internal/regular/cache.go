package regular

import (
	"os"
	"sync"
	"time"
)

// Cache has what was read from files and folders that have not changed since then. The zero value is empty, and it is
// safe for concurrent use.
type Cache[T any] struct{ read sync.Map } // stamp → func() (T, error)

// stamp differs when a file has changed, or the list of a folder's files.
type stamp struct {
	path    string
	size    int64
	changed time.Time
}

// Get returns what read returned for the path, unless that was an error.
func (c *Cache[T]) Get(path string, read func(path string) (T, error)) (T, error) {
	at := stamp{path: path}
	if info, err := os.Stat(path); err == nil {
		at.size, at.changed = info.Size(), info.ModTime()
	}
	found, _ := c.read.LoadOrStore(at, sync.OnceValues(func() (T, error) { return read(path) }))
	v, err := found.(func() (T, error))()
	if err != nil {
		c.read.Delete(at) // read again next time
	}
	return v, err
}
