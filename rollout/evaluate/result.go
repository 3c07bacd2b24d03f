package evaluate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/durable"
	"vagen/internal/redact"
	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
)

// EpisodeResult is what came of an episode.
type EpisodeResult struct {
	ID     string `json:"id"`
	Tag    string `json:"tag_id"`
	Model  string `json:"model"`
	Env    string `json:"env"`
	Seed   int64  `json:"seed"`
	Repeat int    `json:"repeat"` // episodes of the same environment and seed before it
	Source string `json:"data_source,omitempty"`

	End     string             `json:"finish_reason"`
	Error   string             `json:"error,omitempty"`
	Success bool               `json:"success"`
	Score   float64            `json:"score"` // sum of all rewards
	Reward  map[string]float64 `json:"reward"`
	Metrics env.Metrics        `json:"metrics,omitempty"` // of the trajectory, from the environment
	Turns   int                `json:"turns"`
	// FormatCorrect and Truncated count turns.
	FormatCorrect int `json:"format_correct"`
	Truncated     int `json:"truncated"`

	ResponseTokens int64   `json:"response_tokens"` // written by the policy
	PromptTokens   int64   `json:"prompt_tokens"`   // read by it; those of an API count with every request
	Cost           float64 `json:"cost"`

	Settings string `json:"settings"` // sum of what it was played with
}

// Usable reports whether the episode counts.
func (r *EpisodeResult) Usable() bool { return rollout.End(r.End).Usable() }

// resultOf sums up a trajectory.
func resultOf(t *rollout.Trajectory, used policy.Usage) EpisodeResult {
	r := EpisodeResult{
		Env: t.Env, Seed: t.Seed, Source: t.Source, End: string(t.End), Success: t.Success, Score: t.Return(),
		Reward: map[string]float64{}, Metrics: t.Metrics, Turns: len(t.Turns),
		ResponseTokens: used.CompletionTokens, PromptTokens: used.PromptTokens, Cost: used.Cost,
	}
	if t.Err != nil {
		r.Error = t.Err.Error()
	}
	for _, turn := range t.Turns {
		for _, p := range turn.Reward {
			r.Reward[p.Name] += p.Value
		}
		if turn.Parsed.FormatCorrect {
			r.FormatCorrect++
		}
		if turn.Stop == policy.StopLength {
			r.Truncated++
		}
	}
	for i := range t.Rows {
		for p := range t.Rows[i].Pieces {
			if p.Kind == mask.Response {
				r.ResponseTokens += int64(p.End - p.Start)
			} else {
				r.PromptTokens += int64(p.End - p.Start)
			}
		}
	}
	return r
}

// settings sums up what an episode of the task is played with, secrets aside.
func (t *Task) settings(e *rollout.Episode) string {
	options, err := json.Marshal(redact.Value("config", e.Config))
	if err != nil { // what has no form in JSON still has a text
		options = fmt.Append(nil, e.Config)
	}
	p := &t.Player
	limits := *e
	limits.Config, limits.Seed, limits.Group, limits.Index = nil, 0, 0, 0
	sum := sha256.Sum256(fmt.Appendf(options, "|%+v|%+v|%d|%T%+v|%+v|%q|%d", limits, p.Sampling, p.MaxTurns, p.Harness, p.Harness, p.Budget, p.EpisodeMean, t.Seed))
	return hex.EncodeToString(sum[:8])
}

const resultName = "result.json"

// writeResult puts the folder of an episode in place in one go.
func writeResult(dir string, r *EpisodeResult, t *rollout.Trajectory) error {
	final := filepath.Join(dir, r.ID)
	err := os.RemoveAll(final + durable.Unfinished) // of a process that died
	if err == nil {
		err = os.MkdirAll(final+durable.Unfinished, 0o755)
	}
	if err == nil {
		err = store.WriteEpisode(final+durable.Unfinished, "", t)
	}
	if err == nil {
		err = durable.WriteJSON(filepath.Join(final+durable.Unfinished, resultName), r)
	}
	if err == nil {
		err = os.Rename(final+durable.Unfinished, final)
	}
	if err != nil {
		return fmt.Errorf("evaluate: %w", errors.Join(err, os.RemoveAll(final+durable.Unfinished)))
	}
	return nil
}

func removeResult(dir, id string) error {
	if err := os.RemoveAll(filepath.Join(dir, id)); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// readResults reads the results of a tag, in the order of their names. Folders that
// were being written when a process died are removed.
func readResults(dir string) ([]EpisodeResult, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	var out []EpisodeResult
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), durable.Unfinished) {
			continue // a cut one is written over
		}
		path := filepath.Join(dir, e.Name(), resultName)
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else's folder
		}
		var r EpisodeResult
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err == nil && r.ID != e.Name() {
			err = fmt.Errorf("it is of %q", r.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("evaluate: %s: %w", path, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// parts lists the names of reward parts, sorted.
func parts(rs []EpisodeResult) []string {
	names := map[string]bool{}
	for i := range rs {
		for name := range rs[i].Reward {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
