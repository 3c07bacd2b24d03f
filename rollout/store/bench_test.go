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

// BenchmarkSummaries reads the summaries of 10,000 episodes in 80 files, per iteration.
func BenchmarkSummaries(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a.parquet")
	ts := trajectories(b)
	all := ts[:0:0]
	for range 125 / len(ts) {
		all = append(all, ts...)
	}
	if err := Save(path, 1, all); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for n := 0; n < 10_000; n += len(all) {
			r, err := Open(path)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.Summaries(); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	}
}
