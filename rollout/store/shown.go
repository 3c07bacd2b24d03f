package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/imagefile"
	"vagen/internal/redact"
	"vagen/rollout"
)

// ShownTurn is a turn of a Shown.
type ShownTurn struct {
	Observation string             `json:"observation"`
	Images      []string           `json:"images"`
	Response    string             `json:"response"`
	Stop        string             `json:"stop"`
	Actions     []string           `json:"actions"`
	Reward      map[string]float64 `json:"reward"`
	Metrics     map[string]float64 `json:"metrics"`
}

// Shown is an episode in the JSON that WriteEpisode writes, without tokens.
type Shown struct {
	Env     string      `json:"env"`
	Seed    int64       `json:"seed"`
	Success bool        `json:"success"`
	End     string      `json:"end"`
	Error   string      `json:"error,omitempty"`
	Return  float64     `json:"return"`
	Turns   []ShownTurn `json:"turns"`
}

// WriteEpisode writes an episode as JSON, a Shown, and its images as PNG files. All file names
// start with prefix.
func WriteEpisode(dir, prefix string, t *rollout.Trajectory) error {
	if t == nil {
		return errors.New("store: the episode is nil")
	}
	e := Shown{Env: t.Env, Seed: t.Seed, Success: t.Success, End: string(t.End), Return: t.Return()}
	if t.Err != nil {
		e.Error = redact.Text(t.Err.Error())
	}
	for k, turn := range t.Turns {
		s := ShownTurn{
			Observation: turn.Observation.Text, Response: turn.Response, Stop: string(turn.Stop), Actions: turn.Parsed.Actions,
			Reward: map[string]float64{}, Metrics: turn.Metrics,
		}
		for _, p := range turn.Reward {
			s.Reward[p.Name] += p.Value
		}
		for j, im := range turn.Observation.Images {
			name := fmt.Sprintf("%sturn_%d_%d.png", prefix, k, j)
			if im == nil {
				return fmt.Errorf("store: turn %d: image %d is nil", k, j)
			}
			out, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				return fmt.Errorf("store: %w", err)
			}
			if err := errors.Join(imagefile.FastPNG.Encode(out, im), out.Close()); err != nil {
				return fmt.Errorf("store: %s: %w", out.Name(), err)
			}
			s.Images = append(s.Images, name)
		}
		e.Turns = append(e.Turns, s)
	}
	name := strings.TrimSuffix(prefix, "_")
	if name == "" {
		name = "episode"
	}
	if err := durable.WriteJSON(filepath.Join(dir, name+".json"), e); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
