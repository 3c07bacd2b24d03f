package vagen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"

	"vagen/policy"
	"vagen/rollout"
)

// ErrRunExists means that a folder already holds a run.
var ErrRunExists = errors.New("the folder already holds a run")

// RunFolder is where a run writes: config.yaml, metrics.jsonl, curve.png,
// checkpoints and episodes.
type RunFolder struct{ Path string }

// CreateRun makes the folder of a new run and writes its configuration there. A
// folder with a run in it is an ErrRunExists.
func CreateRun(path string, c *Config) (*RunFolder, error) {
	name := filepath.Join(path, "config.yaml")
	if _, err := os.Stat(name); err == nil {
		return nil, fmt.Errorf("vagen: %w: %s (choose another with -out, or remove it)", ErrRunExists, path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	raw, err := c.YAML()
	if err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		return nil, fmt.Errorf("vagen: %w", err)
	}
	return &RunFolder{Path: path}, nil
}

// SaveCheckpoint writes the learner to checkpoints/step_<n>. It is written under
// another name first, so a folder of that name is always whole.
func (f *RunFolder) SaveCheckpoint(ctx context.Context, l policy.Learner, step int) error {
	final := filepath.Join(f.Path, "checkpoints", fmt.Sprintf("step_%d", step))
	tmp := final + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("vagen: checkpoint: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("vagen: checkpoint: %w", err)
	}
	if err := l.Save(ctx, tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("vagen: checkpoint: %w", err)
	}
	if err := os.Rename(tmp, final); err != nil {
		return fmt.Errorf("vagen: checkpoint: %w", err)
	}
	return nil
}

// shownTurn is a turn as episodes are written out.
type shownTurn struct {
	Observation string             `json:"observation"`
	Images      []string           `json:"images"`
	Response    string             `json:"response"`
	Stop        string             `json:"stop"`
	Actions     []string           `json:"actions"`
	Reward      map[string]float64 `json:"reward"`
	Metrics     map[string]float64 `json:"metrics"`
}

type shownEpisode struct {
	Env     string      `json:"env"`
	Seed    int64       `json:"seed"`
	Success bool        `json:"success"`
	End     string      `json:"end"`
	Error   string      `json:"error,omitempty"`
	Return  float64     `json:"return"`
	Turns   []shownTurn `json:"turns"`
}

// SaveEpisodes writes the first n episodes, with their images as PNG files, to
// episodes/step_<n>.
func (f *RunFolder) SaveEpisodes(step int, ts []*rollout.Trajectory, n int) error {
	dir := filepath.Join(f.Path, "episodes", fmt.Sprintf("step_%d", step))
	if n < 1 || len(ts) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("vagen: episodes: %w", err)
	}
	for i, t := range ts[:min(n, len(ts))] {
		if err := saveEpisode(dir, i, t); err != nil {
			return fmt.Errorf("vagen: episodes: %w", err)
		}
	}
	return nil
}

func saveEpisode(dir string, i int, t *rollout.Trajectory) error {
	e := shownEpisode{Env: t.Env, Seed: t.Seed, Success: t.Success, End: string(t.End), Return: t.Return()}
	if t.Err != nil {
		e.Error = t.Err.Error()
	}
	for k, turn := range t.Turns {
		s := shownTurn{
			Observation: turn.Observation.Text, Response: turn.Response, Stop: string(turn.Stop), Actions: turn.Parsed.Actions,
			Reward: map[string]float64{}, Metrics: turn.Metrics,
		}
		for _, p := range turn.Reward {
			s.Reward[p.Name] += p.Value
		}
		for j, im := range turn.Observation.Images {
			name := fmt.Sprintf("episode_%d_turn_%d_%d.png", i, k, j)
			out, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if err := errors.Join(png.Encode(out, im), out.Close()); err != nil {
				return err
			}
			s.Images = append(s.Images, name)
		}
		e.Turns = append(e.Turns, s)
	}
	out, err := os.Create(filepath.Join(dir, fmt.Sprintf("episode_%d.json", i)))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false) // responses are full of tags
	enc.SetIndent("", "  ")
	return errors.Join(enc.Encode(e), out.Close())
}
