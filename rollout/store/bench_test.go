package store

import (
	"path/filepath"
	"testing"
)

// BenchmarkSave writes six short episodes with 23 pictures of 256 by 256 pixels into
// an empty folder, BenchmarkLoad reads them.
func BenchmarkSave(b *testing.B) {
	ts := trajectories(b)
	for b.Loop() {
		if err := Save(filepath.Join(b.TempDir(), "a.parquet"), 1, ts); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a.parquet")
	if err := Save(path, 1, trajectories(b)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Load(path); err != nil {
			b.Fatal(err)
		}
	}
}
