package hub

import (
	"fmt"
	"path/filepath"
)

// Cached returns the folder of a model that an earlier Fetch downloaded. If there is none,
// ok is false and dir is the folder that Fetch would use, with <commit> in place of the
// unknown commit.
func Cached(id string, o Options) (dir string, ok bool, err error) {
	if !IsID(id) {
		return "", false, fmt.Errorf("hub: %w: %q, must be owner/name", ErrID, id)
	}
	if err := o.fill(); err != nil {
		return "", false, err
	}
	f := newFetcher(id, o)
	if dir, ok = f.cached(); ok {
		return dir, true, nil
	}
	return filepath.Join(f.root, "<commit>"), false, nil
}
