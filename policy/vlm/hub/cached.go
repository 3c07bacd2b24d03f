package hub

import (
	"fmt"
	"path/filepath"
)

// Cached finds a model that an earlier Fetch brought. Without one ok is false, and dir
// is where Fetch would put it, with <commit> for what only the hub knows.
func Cached(id string, o Options) (dir string, ok bool, err error) {
	if !IsID(id) {
		return "", false, fmt.Errorf("hub: %w: %q, must be owner/name", ErrID, id)
	}
	if err := o.fill(); err != nil {
		return "", false, err
	}
	f := newFetcher(id, o)
	if dir, ok = f.earlier(); ok {
		return dir, true, nil
	}
	return filepath.Join(f.root, "<commit>"), false, nil
}
