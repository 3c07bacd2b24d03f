package run

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/run/internal/owner"
)

// shot is an episode with a picture that no other episode has.
func shot(step int) []*rollout.Trajectory {
	im := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for i := range im.Pix {
		im.Pix[i] = byte(i * (step + 7) % 251)
	}
	return []*rollout.Trajectory{{Episode: rollout.Episode{Env: "x", Seed: int64(step)}, End: rollout.EndDone,
		Turns: []rollout.Turn{{Observation: env.Observation{Text: "<image>", Images: []image.Image{im}}}}}}
}

// TestEpisodesOfAResumedRunAreThoseOfAnUninterruptedOne: files that a stopped run wrote
// after its checkpoint are removed, and the final folders are equal.
func TestEpisodesOfAResumedRunAreThoseOfAnUninterruptedOne(t *testing.T) {
	c := config.Default()
	c.Trainer.LogImage.Enable, c.Trainer.LogImage.MaxPending = true, 1
	play := func(dir string, done, from, to int) {
		a, err := claimed(dir, owner.Run{ID: "R", Folder: "run"}, &c, done)
		require.NoError(t, err)
		for step := from; step <= to; step++ {
			require.NoError(t, a.add(step, shot(step)))
			require.NoError(t, a.addScores(step, []store.Scores{{Group: step, Rewards: []float32{1}}}))
		}
		require.NoError(t, a.flush())
		scores, err := store.LoadScores(filepath.Join(dir, "step_3.scores.parquet"))
		require.NoError(t, err)
		require.Equal(t, 3, scores[0].Group)
		got, err := store.Load(filepath.Join(dir, "step_3.parquet"))
		require.NoError(t, err, "flushed episodes are on the disk, pictures included")
		require.Equal(t, 3, got[0].Step)
		require.NoError(t, a.close())
	}
	whole, stopped := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	play(whole, -1, 0, 5)
	play(stopped, -1, 0, 4)
	play(stopped, 2, 3, 3)
	require.NoFileExists(t, filepath.Join(stopped, "step_4.parquet"))
	require.NoFileExists(t, filepath.Join(stopped, "step_4.scores.parquet"))
	play(stopped, 3, 4, 5)
	require.Equal(t, traintest.Files(t, whole), traintest.Files(t, stopped))

	undone := filepath.Join(t.TempDir(), "c")
	a, err := claimed(undone, owner.Run{ID: "R", Folder: "run"}, &c, -1)
	require.NoError(t, err)
	for step := range 6 {
		require.NoError(t, a.add(step, shot(step)))
	}
	require.NoError(t, a.rewind(2))
	left, err := filepath.Glob(filepath.Join(undone, "*.parquet"))
	require.NoError(t, err)
	require.Len(t, left, 3)
	require.NoError(t, a.add(3, shot(3)))
	require.NoError(t, a.close())
	require.FileExists(t, filepath.Join(undone, "step_3.parquet"))
}

// claimed opens an archive as a run does.
func claimed(dir string, run owner.Run, c *config.Config, done int) (*archive, error) {
	release, err := claim(dir, run)
	if err != nil {
		return nil, err
	}
	return newArchive(dir, release, c, done, nil)
}

func TestFoldersOfOtherRunsAreRefused(t *testing.T) {
	c := config.Default()
	dir, home := t.TempDir(), t.TempDir()
	testkit.Write(t, filepath.Join(home, "run.id"), "A\n")
	first := owner.Run{ID: "A", Folder: home}
	a, err := claimed(dir, first, &c, -1)
	require.NoError(t, err)
	_, err = claim(dir, first)
	require.ErrorIs(t, err, ErrBusy, "one process at a time")
	require.NoError(t, a.close())
	for name, other := range map[string]owner.Run{"another run": {ID: "B", Folder: home},
		"a run that begins": {ID: "", Folder: home}, "a copy of the run": {ID: "A", Folder: home + "-copy"}} {
		_, err = claim(dir, other)
		require.ErrorIs(t, err, ErrExists, name)
		require.ErrorContains(t, err, home, name)
	}
	testkit.Write(t, filepath.Join(home, "run.id"), "damaged")
	c.Trainer.RolloutDir = &dir
	require.EqualError(t, checkArchives(home, &c), "bad configuration: trainer.rollout_data_dir: the folder already contains a run: "+
		dir+" contains the episodes of the run A in "+home+", but the ID in run.id is \"damaged\": if it is still that run, "+
		"restore the ID; otherwise choose another folder, or move the episodes away together with run.txt")
	testkit.Write(t, filepath.Join(home, "run.id"), "A\n")
	moved := home + "-moved"
	require.NoError(t, os.Rename(home, moved))
	release, err := claim(dir, owner.Run{ID: "A", Folder: moved})
	require.NoError(t, err, "the run was moved")
	require.NoError(t, release())
	was, ok, err := owner.Recorded(dir)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, owner.Run{ID: "A", Folder: moved}, was)

	dir = filepath.Join(t.TempDir(), "a [b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	testkit.Write(t, filepath.Join(dir, "step_7.parquet"), "")
	_, err = claim(dir, first)
	require.ErrorIs(t, err, ErrExists)
	require.Equal(t, map[string]string{"step_7.parquet": ""}, traintest.Files(t, dir), "nothing is changed")

	_, err = claim(filepath.Join(dir, "step_7.parquet"), first)
	require.Error(t, err, "it is no folder")
}

// TestEpisodesThatCannotBeWrittenEndTheRun: the next step reports that the folder is
// missing.
func TestEpisodesThatCannotBeWrittenEndTheRun(t *testing.T) {
	c := config.Default()
	dir := filepath.Join(t.TempDir(), "a")
	a, err := claimed(dir, owner.Run{ID: "R", Folder: "run"}, &c, -1)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	_ = a.add(1, shot(1))
	require.ErrorIs(t, a.flush(), os.ErrNotExist)
	require.ErrorIs(t, a.add(2, shot(2)), os.ErrNotExist)
	require.ErrorIs(t, a.close(), os.ErrNotExist)
}

func TestLevelsAreThoseOfPNG(t *testing.T) {
	for n, want := range map[int]png.CompressionLevel{0: png.NoCompression, 1: png.BestSpeed, 2: png.DefaultCompression,
		8: png.DefaultCompression, 9: png.BestCompression} {
		require.Equal(t, want, level(n))
	}
}
