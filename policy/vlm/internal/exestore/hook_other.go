//go:build !cgo

package exestore

// Compile calls f. Without cgo there is no XLA.
func (s *Store) Compile(f func() error) error { return f() }
