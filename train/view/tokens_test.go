package view_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/tokenizer"
	"vagen/train/view"
)

// TestAnUnusableTokenizerIsReadOnceAndBlocksNothing: while it is read, other answers about the run
// come; its fault is remembered until its file changes.
func TestAnUnusableTokenizerIsReadOnceAndBlocksNothing(t *testing.T) {
	f := trainRun(t, 1)
	path := filepath.Join(f.dir, "model", "tokenizer.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Write(t, path, "{}")
	reads, began, goOn := 0, make(chan struct{}), make(chan struct{})
	defer view.SetReadTokenizer(func(string) (*tokenizer.Tokenizer, error) {
		if reads++; reads == 1 {
			close(began)
			<-goOn
		}
		return nil, errors.New("unusable")
	})()
	s := serveRuns(t, "", f.dir)
	ask := func() {
		a := s.episode(t, "train/1/0-0")
		require.Contains(t, a.Problems[len(a.Problems)-1], "The tokenizer in model cannot be read: unusable")
		require.Len(t, a.Rows[0].Texts, len(a.Rows[0].Tokens), "without texts")
	}
	first := make(chan struct{})
	go func() {
		defer close(first)
		ask()
	}()
	<-began
	var m metricsAnswer
	s.get(t, 200, "/api/runs/r0/metrics", &m)
	var l listAnswer
	s.get(t, 200, "/api/runs/r0/episodes", &l)
	require.NotZero(t, l.Total)
	close(goOn)
	<-first
	ask()
	require.Equal(t, 1, reads)
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
	ask()
	require.Equal(t, 2, reads, "another file")

	// The folder of a run is no pattern, and no file outside of it is read.
	marked := filepath.Join(t.TempDir(), "run [1]")
	require.NoError(t, os.Rename(f.dir, marked))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(marked, "model", "elsewhere")))
	var a detailAnswer
	serveRuns(t, "", marked).get(t, 200, "/api/runs/r0/episode?key=train/1/0-0", &a)
	require.Contains(t, a.Problems[len(a.Problems)-1], "no checkpoint with a tokenizer")
	require.Equal(t, 2, reads)
}
