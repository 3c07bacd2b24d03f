package launch

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen"
	"vagen/env"
	"vagen/rollout"
	"vagen/rollout/store"
)

// shot is an episode that shows a picture of its own.
func shot(step int) []*rollout.Trajectory {
	im := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for i := range im.Pix {
		im.Pix[i] = byte(i * (step + 7) % 251)
	}
	return []*rollout.Trajectory{{Episode: rollout.Episode{Env: "x", Seed: int64(step)}, End: rollout.EndDone,
		Turns: []rollout.Turn{{Observation: env.Observation{Text: "<image>", Images: []image.Image{im}}}}}}
}

func files(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[path[len(dir):]] = string(raw)
		return err
	}))
	return out
}

// TestEpisodesOfARunAreThoseOfOneThatNobodyStopped: what a stopped run left beyond
// its checkpoint goes, and the folder ends the same.
func TestEpisodesOfARunAreThoseOfOneThatNobodyStopped(t *testing.T) {
	c := vagen.Default()
	c.Trainer.LogImage.Enable, c.Trainer.LogImage.MaxPending = true, 1
	play := func(dir string, done, from, to int) {
		a, err := newArchive(dir, &c, done, nil)
		require.NoError(t, err)
		for step := from; step <= to; step++ {
			require.NoError(t, a.add(step, shot(step)))
		}
		require.NoError(t, a.flush())
		got, err := store.Load(filepath.Join(dir, "step_3.parquet"))
		require.NoError(t, err, "what is flushed is there, pictures included")
		require.Equal(t, 3, got[0].Step)
		require.NoError(t, a.close())
	}
	whole, stopped := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	play(whole, -1, 0, 5)
	play(stopped, -1, 0, 4)
	play(stopped, 2, 3, 3)
	require.NoFileExists(t, filepath.Join(stopped, "step_4.parquet"))
	play(stopped, 3, 4, 5)
	require.Equal(t, files(t, whole), files(t, stopped))
}

func TestFoldersOfOtherRunsAreRefused(t *testing.T) {
	c, other := vagen.Default(), vagen.Default()
	other.Trainer.Experiment = "another"
	dir := t.TempDir()
	a, err := newArchive(dir, &c, -1, nil)
	require.NoError(t, err)
	require.NoError(t, a.close())
	_, err = newArchive(dir, &other, -1, nil)
	require.ErrorIs(t, err, vagen.ErrRunExists)
	require.ErrorContains(t, err, `holds the episodes of "vagen/run", and this run is "vagen/another"`)

	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "step_7.parquet"), nil, 0o644))
	_, err = newArchive(dir, &c, -1, nil)
	require.ErrorIs(t, err, vagen.ErrRunExists)
	require.FileExists(t, filepath.Join(dir, "step_7.parquet"))

	_, err = newArchive(filepath.Join(dir, "step_7.parquet"), &c, -1, nil)
	require.Error(t, err, "it is no folder")
}

// TestEpisodesThatCannotBeWrittenEndTheRun: a folder that is gone is told of with the
// next step.
func TestEpisodesThatCannotBeWrittenEndTheRun(t *testing.T) {
	c := vagen.Default()
	dir := filepath.Join(t.TempDir(), "a")
	a, err := newArchive(dir, &c, -1, nil)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	_ = a.add(1, shot(1))
	require.ErrorIs(t, a.flush(), os.ErrNotExist)
	require.ErrorIs(t, a.add(2, shot(2)), os.ErrNotExist)
	require.ErrorIs(t, a.close(), os.ErrNotExist)
}

func TestLevelsAreThoseOfPNG(t *testing.T) {
	for n, want := range map[int]png.CompressionLevel{0: png.NoCompression, 1: png.BestSpeed, 2: png.DefaultCompression, 8: png.DefaultCompression, 9: png.BestCompression} {
		require.Equal(t, want, level(n))
	}
}
