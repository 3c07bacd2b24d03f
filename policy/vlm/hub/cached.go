package hub

import "path/filepath"

// Cached returns the folder of a model that an earlier Fetch downloaded. If there is none,
// ok is false and dir is the folder that Fetch would use, with <commit> in place of the
// unknown commit.
func Cached(id string, o Options) (dir string, ok bool, err error) {
	f, err := newFetcher(id, o)
	if err != nil {
		return "", false, err
	}
	if dir, ok = f.cached(); ok {
		return dir, true, nil
	}
	return filepath.Join(f.root, "<commit>"), false, nil
}
