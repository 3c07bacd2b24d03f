package view_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/track"
)

// trained is the folder of a run that train.Trainer played with a learner that has no
// network, and that records its episodes and scores as train/run does.
type trained struct {
	dir, rollouts string
	episodes      map[int][]*rollout.Trajectory
	scores        map[int][]store.Scores
	config        config.Config
}

func trainRun(t testing.TB, steps int) *trained { return trainRunAs(t, "run", steps) }

// trainRunAs is trainRun with a name of the run.
func trainRunAs(t testing.TB, name string, steps int) *trained {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	f := &trained{dir: dir, rollouts: filepath.Join(dir, "rollouts"), episodes: map[int][]*rollout.Trajectory{},
		scores: map[int][]store.Scores{}}
	c := traintest.Grouped()
	c.Algorithm.Estimator, c.Algorithm.TurnGamma, c.Env.Config, c.Rollout.MaxTurns = "bi_level_gae", 0.9,
		map[string]any{"turns": uint64(3)}, 3
	c.Trainer.Experiment = name
	c.Trainer.Steps, c.Trainer.RolloutDir, c.Trainer.RolloutScores, c.Trainer.LogImage.Enable = steps, &f.rollouts, true,
		true
	f.config = c
	require.NoError(t, os.MkdirAll(f.rollouts, 0o755))
	raw, err := c.Stored()
	require.NoError(t, err)
	f.write(t, "config.yaml", string(raw))
	f.write(t, "run.id", "ID\n")
	f.write(t, "rollouts/run.txt", "ID\n"+dir+"\n")

	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	lines, err := track.NewJSONLines(filepath.Join(dir, "metrics.jsonl"))
	require.NoError(t, err)
	tr.Handled, tr.Sinks = []string{"trainer."}, append(tr.Sinks, lines)
	gallery, err := store.OpenGallery(f.rollouts, store.GalleryOptions{})
	require.NoError(t, err)
	tr.Observer = traintest.Hooks{
		OnPlayed: func(step int, ts []*rollout.Trajectory) error {
			f.episodes[step] = ts
			return gallery.Save(fmt.Sprintf("step_%d.parquet", step), step, ts)
		},
		OnEstimated: func(step int, s []store.Scores) error {
			f.scores[step] = s
			return store.SaveScores(filepath.Join(f.rollouts, fmt.Sprintf("step_%d.scores.parquet", step)), step, s)
		},
	}
	require.NoError(t, tr.Run(t.Context()))
	require.NoError(t, lines.Close())
	return f
}

func (f *trained) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Write(t, path, text)
}

// served is a server with helpers.
type served struct{ *httptest.Server }

func serveRuns(t testing.TB, key string, dirs ...string) served {
	t.Helper()
	s := served{httptest.NewServer(handlerOf(t, key, dirs...))}
	t.Cleanup(s.Close)
	return s
}

// viewed is a run and a server that shows it.
func viewed(t testing.TB, steps int) (*trained, served) {
	t.Helper()
	f := trainRun(t, steps)
	return f, serveRuns(t, "", f.dir)
}

// get decodes an answer, which must have the status.
func (s served) get(t testing.TB, status int, path string, into any) {
	t.Helper()
	answer, err := http.Get(s.URL + path)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, status, answer.StatusCode, path)
	require.Equal(t, "application/json; charset=utf-8", answer.Header.Get("Content-Type"), path)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into), path)
}

func (s served) runs(t testing.TB) (a runsAnswer) {
	t.Helper()
	s.get(t, 200, "/api/runs", &a)
	return a
}

func (s served) episodes(t testing.TB, query string) (a listAnswer) {
	t.Helper()
	s.get(t, 200, "/api/runs/r0/episodes?"+query, &a)
	return a
}

func (s served) episode(t testing.TB, key string) (a detailAnswer) {
	t.Helper()
	s.get(t, 200, "/api/runs/r0/episode?key="+key, &a)
	return a
}

func (s served) credit(t testing.TB, query string) (a creditAnswer) {
	t.Helper()
	s.get(t, 200, "/api/runs/r0/credit?"+query, &a)
	return a
}

// refused returns the error of an answer, which must have the status.
func (s served) refused(t testing.TB, status int, path string) string {
	t.Helper()
	var a struct{ Error string }
	s.get(t, status, path, &a)
	require.NotEmpty(t, a.Error, path)
	return a.Error
}

// The answers, as far as the tests read them.
type (
	runsAnswer struct {
		Runs []struct {
			ID, Name, Estimator string
			Steps, Episodes     int
			Live                bool
			Problems            []string
		}
	}
	listAnswer struct {
		Total  int
		Facets struct {
			Env, End []string
			Step     []int
		}
		Episodes []struct {
			Key, Kind, Env, End               string
			Excerpt, Error                    string
			Step, Group, Index, Turns, Tokens int
			Seed                              int64
			Success, Scores, Measured         bool
			Reward                            float64
		}
	}
	detailAnswer struct {
		Key, Error string
		Config     map[string]any
		Turns      []struct {
			Row                         int
			Observation, Response, Stop string
			Images                      []*string
			Actions                     []string
			Reward                      map[string]float64
			Claims                      []struct {
				Kind, Said, Truth string
				Score             *float64
			}
		}
		Rows []struct {
			Tokens []int32
			Texts  []string
			Pieces []struct {
				Kind       string
				Start, End int
			}
			Turn    []int
			Columns map[string][]*float32
		}
		Problems []string
	}
	metricsAnswer struct {
		Lines, Generation int
		Reset             bool
		Series            map[string][][2]*float64
	}
	creditAnswer struct {
		Rows    []struct{ Advantage, Return []*float32 }
		Turns   []struct{ Claim *float64 }
		Problem string
	}
)
