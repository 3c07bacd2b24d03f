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
	"vagen/internal/filelock"
	"vagen/internal/redact"
	"vagen/internal/regular"
	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
)

// EpisodeResult is the result of an episode.
type EpisodeResult struct {
	ID     string `json:"id"`
	Tag    string `json:"tag_id"`
	Model  string `json:"model"`
	Env    string `json:"env"`
	Seed   int64  `json:"seed"`
	Repeat int    `json:"repeat"` // number of earlier episodes with the same environment and seed
	Source string `json:"data_source,omitempty"`

	End     string             `json:"finish_reason"`
	Error   string             `json:"error,omitempty"`
	Success bool               `json:"success"`
	Score   float64            `json:"score"` // sum of all rewards
	Reward  map[string]float64 `json:"reward"`
	Metrics env.Metrics        `json:"metrics,omitempty"` // from the environment
	Turns   int                `json:"turns"`
	// FormatCorrect and Truncated count turns.
	FormatCorrect int `json:"format_correct"`
	Truncated     int `json:"truncated"`

	ResponseTokens int64   `json:"response_tokens"` // written by the policy
	PromptTokens   int64   `json:"prompt_tokens"`   // read by the policy; with an API, the sum over all requests
	Cost           float64 `json:"cost"`

	Settings string `json:"settings"` // hash of the settings that it was played with
}

// Usable reports whether the episode counts in statistics.
func (r *EpisodeResult) Usable() bool { return rollout.End(r.End).Usable() }

// resultOf returns the result of a trajectory.
func resultOf(t *rollout.Trajectory, used policy.Usage) EpisodeResult {
	r := EpisodeResult{
		Env: t.Env, Seed: t.Seed, Source: t.Source, End: string(t.End), Success: t.Success, Score: t.Return(),
		Reward: map[string]float64{}, Metrics: t.Metrics, Turns: len(t.Turns),
		ResponseTokens: used.CompletionTokens, PromptTokens: used.PromptTokens, Cost: used.Cost,
	}
	if t.Err != nil {
		r.Error = redact.Text(t.Err.Error())
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

// settings returns a hash of the settings of an episode, without secrets.
func (e *Evaluation) settings(t *Task, ep *rollout.Episode) string {
	options, err := json.Marshal(redact.Value("config", ep.Config))
	if err != nil { // no JSON form
		options = fmt.Append(nil, ep.Config)
	}
	p := &t.Player
	limits := *ep
	limits.Config, limits.Seed, limits.Group, limits.Index = nil, 0, 0, 0
	sum := sha256.Sum256(fmt.Appendf(options, "|%+v|%+v|%d|%T%+v|%+v|%q|%d%s%s", limits, p.Sampling, p.MaxTurns, p.Harness,
		p.Harness, p.Budget, p.EpisodeMean, t.Seed, e.Identity, t.Judge))
	return hex.EncodeToString(sum[:8])
}

// lock locks the results of the model in the folder until unlock is called.
func (e *Evaluation) lock() (unlock func(), err error) {
	if err := os.MkdirAll(e.Dir, 0o755); err != nil {
		return nil, err
	}
	unlock, held, err := filelock.TryLock(filepath.Join(e.Dir, ".lock-"+rollout.RolloutID("", "", "", e.Model)))
	if held {
		err = fmt.Errorf("%w: %s in %s", ErrBusy, e.Model, e.Dir)
	}
	return unlock, err
}

const resultName = "result.json"

// writeResult writes the folder of an episode atomically.
func writeResult(dir string, r *EpisodeResult, t *rollout.Trajectory) error {
	err := durable.WriteFolder(filepath.Join(dir, r.ID), func(dir string) error {
		if err := store.WriteEpisode(dir, "", t); err != nil {
			return err
		}
		return durable.WriteJSON(filepath.Join(dir, resultName), r)
	})
	if err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	return nil
}

// readResults reads the results of a tag, in the order of their names. It skips folders
// that an interrupted process left incomplete.
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
			continue // incomplete; will be overwritten
		}
		path := filepath.Join(dir, e.Name(), resultName)
		raw, err := regular.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not a result
		}
		var r EpisodeResult
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err == nil && r.ID != e.Name() {
			err = fmt.Errorf("id is %q, must be %q", r.ID, e.Name())
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
