package run_test

import (
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
)

func TestARunFolderHoldsItsConfiguration(t *testing.T) {
	c := traintest.Small()
	path := filepath.Join(t.TempDir(), "runs", "one")
	f, err := run.CreateFolder(path, &c)
	require.NoError(t, err)
	require.Equal(t, path, f.Path)
	got, err := config.Load(filepath.Join(path, "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, c, got, "the run can be repeated from its folder")
}

func TestARunFolderIsNotUsedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	c := traintest.Small()
	_, err := run.CreateFolder(path, &c)
	require.NoError(t, err)
	before := testkit.Read(t, filepath.Join(path, "config.yaml"))
	c.Run.Seed++
	_, err = run.CreateFolder(path, &c)
	testkit.Error(t, err, run.ErrExists, path)
	require.Equal(t, before, testkit.Read(t, filepath.Join(path, "config.yaml")))

	other := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.Mkdir(other, 0o755))
	_, err = run.CreateFolder(other, &c)
	require.NoError(t, err, "a folder without a run is fine")
}

func TestARunFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := testkit.File(t, "file", "")
	c := traintest.Small()
	_, err := run.CreateFolder(filepath.Join(file, "run"), &c)
	require.ErrorContains(t, err, "run: ")
	c.Env.Config = map[string]any{"f": func() {}}
	_, err = run.CreateFolder(filepath.Join(t.TempDir(), "run"), &c)
	require.ErrorContains(t, err, "a func() cannot be written as YAML")
}

// TestEpisodesAreWrittenWithTheirPictures writes two of three episodes and reads
// them back.
func TestEpisodesAreWrittenWithTheirPictures(t *testing.T) {
	im := image.NewRGBA(image.Rect(0, 0, 3, 2))
	im.Set(1, 1, color.RGBA{200, 100, 50, 255})
	ts := []*rollout.Trajectory{
		{
			Episode: rollout.Episode{Env: "lake", Seed: 11}, Success: true, End: rollout.EndDone,
			Turns: []rollout.Turn{
				{
					Observation: env.Observation{Text: "see <image>", Images: []image.Image{im}},
					Response:    "<answer>Up & away</answer>", Stop: policy.StopEnd,
					Parsed:  reward.Response{Actions: []string{"up", "away"}},
					Reward:  reward.Parts{{Name: "format", Value: 0.25}, {Name: "format", Value: 0.5}, {Name: "success", Value: 1}},
					Metrics: env.Metrics{"valid": 1},
				},
				{Observation: env.Observation{Text: "end"}, Stop: policy.StopLength},
			},
		},
		{Episode: rollout.Episode{Env: "lake", Seed: 12}, End: rollout.EndEnv, Err: errors.New("it broke")},
		{Episode: rollout.Episode{Env: "lake", Seed: 13}},
	}
	f := &run.Folder{Path: t.TempDir()}
	require.NoError(t, f.SaveEpisodes(20, ts, 2))
	dir := filepath.Join(f.Path, "episodes", "step_20")
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"episode_0.json", "episode_0_turn_0_0.png", "episode_1.json"}, names)

	raw := testkit.Text(t, filepath.Join(dir, "episode_0.json"))
	require.Contains(t, raw, "<answer>Up & away</answer>", "readable, without escapes")
	got := testkit.JSON[map[string]any](t, raw)
	turns := got["turns"].([]any)
	delete(got, "turns")
	require.Equal(t, map[string]any{"env": "lake", "seed": 11.0, "success": true, "end": "done", "return": 1.75}, got)
	require.Equal(t, map[string]any{
		"observation": "see <image>", "images": []any{"episode_0_turn_0_0.png"}, "response": "<answer>Up & away</answer>",
		"stop":    "end",
		"actions": []any{"up", "away"}, "reward": map[string]any{"format": 0.75, "success": 1.0},
		"metrics": map[string]any{"valid": 1.0},
	}, turns[0])
	require.Len(t, turns, 2)

	file, err := os.Open(filepath.Join(dir, "episode_0_turn_0_0.png"))
	require.NoError(t, err)
	defer file.Close()
	back, err := png.Decode(file)
	require.NoError(t, err)
	require.Equal(t, im.Bounds(), back.Bounds())
	require.Equal(t, color.RGBAModel.Convert(im.At(1, 1)), color.RGBAModel.Convert(back.At(1, 1)))

	require.Contains(t, testkit.Text(t, filepath.Join(dir, "episode_1.json")), `"error": "it broke"`, "an episode that failed says why")
}

func TestNoEpisodesWriteNothing(t *testing.T) {
	f := &run.Folder{Path: t.TempDir()}
	require.NoError(t, f.SaveEpisodes(1, nil, 4))
	require.NoError(t, f.SaveEpisodes(1, []*rollout.Trajectory{{}}, 0))
	require.NoDirExists(t, filepath.Join(f.Path, "episodes"))
	testkit.Write(t, filepath.Join(f.Path, "episodes"), "")
	require.ErrorContains(t, f.SaveEpisodes(1, []*rollout.Trajectory{{}}, 1), "run: episodes: ")
}

// TestTheBestPolicyIsThereAfterAKill: a process that was killed while it replaced the folder best_actor, or wrote
// a new one, does not cost a resumed run its best policy so far.
func TestTheBestPolicyIsThereAfterAKill(t *testing.T) {
	c := traintest.Small()
	f, err := run.CreateFolder(filepath.Join(t.TempDir(), "run"), &c)
	require.NoError(t, err)
	best := filepath.Join(f.Path, "best_actor")
	require.NoError(t, f.SaveBest(t.Context(), train.Best{Step: 3}, func(context.Context, string) error { return nil }))
	require.NoError(t, os.Rename(best, best+".old"))
	require.NoError(t, os.Mkdir(best+".tmp", 0o755))
	unlock, err := f.Lock()
	require.NoError(t, err)
	require.NoError(t, unlock())
	require.FileExists(t, filepath.Join(best, "best.json"))
	require.NoDirExists(t, best+".old")
	require.NoDirExists(t, best+".tmp")
}

// TestARepeatedValidationLeavesNoOtherEpisodes: a run that resumed with a smaller trainer.log_val_generations.
func TestARepeatedValidationLeavesNoOtherEpisodes(t *testing.T) {
	f := &run.Folder{Path: t.TempDir()}
	for n := 3; n > 0; n-- {
		require.NoError(t, f.SaveEpisodes(20, []*rollout.Trajectory{{}, {}, {}}, n))
		list, err := os.ReadDir(filepath.Join(f.Path, "episodes", "step_20"))
		require.NoError(t, err)
		require.Len(t, list, n)
	}
}
