package client

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/reward"
	"vagen/reward/judge"
)

// filesOf returns the sizes of a cache's answers by path.
func filesOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == dir {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = info.Size()
		}
		return err
	}))
	return out
}

func TestAnswersAreAskedForOnce(t *testing.T) {
	dir := t.TempDir()
	s := newStub(t, func(_ int64, prompt string, w http.ResponseWriter, _ *http.Request) bool {
		if strings.Contains(prompt, "<claim 3>") {
			reply(w, "What?")
			return true
		}
		return false
	})
	cached := func(o *judge.Service) { o.Cache, o.Retries = filepath.Join(dir, "answers"), 0 }
	for range 2 { // the second client is that of another process
		m, _ := open(t, settings(s.URL, cached), nil)
		ctx, meter := WithMeter(t.Context())
		before := s.requests.Load()
		for range 2 {
			scores, err := m.Score(ctx, []reward.Claim{claimOf(1), claimOf(2)})
			require.NoError(t, err)
			require.Equal(t, []float64{1, 1}, scores)
		}
		u := meter.Usage()
		require.Equal(t, 4, u.Claims)
		require.Equal(t, int(2-before), 4-u.Cached)
	}
	require.Equal(t, int64(2), s.requests.Load())
	m, _ := open(t, settings(s.URL, cached), nil)
	for range 2 {
		_, err := m.Score(t.Context(), []reward.Claim{claimOf(3)})
		require.NoError(t, err)
	}
	require.Equal(t, int64(4), s.requests.Load(), "an answer of a wrong form is not kept")

	other := settings(s.URL, cached)
	other.JudgeModel = "another"
	m, _ = open(t, other, nil)
	_, err := m.Score(t.Context(), []reward.Claim{claimOf(1)})
	require.NoError(t, err)
	require.Equal(t, int64(5), s.requests.Load(), "another model has other answers")

	for path := range filesOf(t, dir) { // damage on the disk
		testkit.Write(t, path, "x")
	}
	_, err = m.Score(t.Context(), []reward.Claim{claimOf(1)})
	require.NoError(t, err)
	require.Equal(t, int64(6), s.requests.Load(), "a damaged answer is asked for again")
}

// Several processes write and read one folder: every answer that is found is the right one,
// and the folder stays within the limit and a sixteenth of it for each.
func TestAFolderOfAnswersIsBoundedAndShared(t *testing.T) {
	const limit, writers = 16 << 10, 4
	dir := t.TempDir()
	answer := func(k int) string { return fmt.Sprintf("answer %d %s", k, strings.Repeat("x", 200)) }
	var wg sync.WaitGroup
	for range writers {
		c, err := openCache(dir, limit)
		require.NoError(t, err)
		wg.Go(func() {
			for k := range 150 {
				key := keyOf(fmt.Sprint(k))
				if got, ok := c.get(key); ok && got != answer(k) {
					t.Errorf("answer %d is %q", k, got)
				}
				if err := c.put(key, answer(k)); err != nil {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for path, size := range filesOf(t, dir) {
		require.NotContains(t, filepath.Base(path), unfinished)
		total += size
	}
	require.LessOrEqual(t, total, int64(limit+limit/16*writers))
	require.Positive(t, total)
}

func TestTheAnswersLeastRecentlyUsedAreRemoved(t *testing.T) {
	c, err := openCache(t.TempDir(), 64<<10)
	require.NoError(t, err)
	long := strings.Repeat("x", 1000)
	old := time.Now().Add(-time.Hour)
	for k := range 50 {
		key := keyOf(fmt.Sprint(k))
		require.NoError(t, c.put(key, long))
		require.NoError(t, os.Chtimes(c.path(key), old.Add(time.Duration(k)*time.Second),
			old.Add(time.Duration(k)*time.Second)))
	}
	_, ok := c.get(keyOf("0")) // used again
	require.True(t, ok)
	for k := 50; k < 70; k++ {
		require.NoError(t, c.put(keyOf(fmt.Sprint(k)), long))
	}
	_, ok = c.get(keyOf("0"))
	require.True(t, ok)
	_, ok = c.get(keyOf("1"))
	require.False(t, ok)
	_, ok = c.get(keyOf("69"))
	require.True(t, ok)
	require.NoError(t, c.put(keyOf("large"), strings.Repeat("x", largestAnswer+1)))
	_, ok = c.get(keyOf("large"))
	require.False(t, ok, "an answer that is too large is not kept")
}
