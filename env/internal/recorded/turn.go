// Package recorded compares environments in tests with recorded episodes of
// the original ones.
package recorded

import (
	"encoding/json"
	"slices"
	"testing"

	"vagen/env"
	"vagen/env/internal/words"
	"vagen/internal/golden"
	"vagen/reward"
)

// Sums is the tolerance for sums, whose order may differ from the originals'.
var Sums = golden.Tolerance{Abs: 1e-9}

// Turn is a recorded turn of any environment.
type Turn struct {
	Kind     string  `json:"kind"`
	Response string  `json:"response"`
	Grid     string  `json:"grid"`
	Reward   float64 `json:"reward"`
	Done     bool    `json:"done"`
	Success  *bool   `json:"success"`
	Metrics  struct {
		Turn map[string]json.RawMessage `json:"turn_metrics"`
		Traj map[string]bool            `json:"traj_metrics"`
	} `json:"metrics"`
	ValidActions []string `json:"valid_actions"`
	Parsed       struct {
		Actions        []string          `json:"actions"`
		FormatCorrect  bool              `json:"format_correct"`
		FormatRewarded *bool             `json:"is_format_rewarded"`
		Observation    []reward.Relation `json:"observation_state"`
		Prediction     []reward.Relation `json:"prediction_state"`
	} `json:"parsed"`
	Player [2]int `json:"player"`
}

// Compare compares an outcome with the turn: rewards, metrics, and the parsed response.
// format names the reward part of the format.
func (s *Turn) Compare(r *golden.Run, out env.Outcome, format string) {
	r.Helper()
	r.Within("reward", out.Reward.Sum(), s.Reward, Sums)
	r.Equal("done", out.Done, s.Done)
	if s.Success != nil {
		r.Equal("success", out.Success, *s.Success)
	}
	r.Equal("number of turn metrics", len(out.Turn), len(s.Metrics.Turn))
	for name, raw := range s.Metrics.Turn {
		r.Equal(name, out.Turn[name], Metric(r, raw))
	}
	for name, want := range s.Metrics.Traj {
		r.Equal(name, out.Trajectory[name], words.Number(want))
	}
	Lists(r, "actions", out.Response.Actions, s.Parsed.Actions)
	r.Equal("format", out.Response.FormatCorrect, s.Parsed.FormatCorrect)
	if s.Parsed.FormatRewarded != nil {
		r.Equal("format rewarded", out.Reward.Of(format) != 0, *s.Parsed.FormatRewarded)
	}
	r.Equal("state reward", len(out.Claims) > 0, s.Parsed.Observation != nil ||
		s.Parsed.Prediction != nil)
	for _, c := range out.Claims {
		want := s.Parsed.Observation
		if c.Section == reward.SectionPrediction {
			want = s.Parsed.Prediction
		}
		Lists(r, "claim about "+c.Section, c.Truth, want)
	}
}

// Metric reads a number, or a yes or no.
func Metric(t testing.TB, raw json.RawMessage) float64 {
	t.Helper()
	var b bool
	if json.Unmarshal(raw, &b) == nil {
		return words.Number(b)
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatalf("metric %s: %v", raw, err)
	}
	return f
}

// Lists compares two lists that must be the same. No list is an empty one.
func Lists[T comparable](r *golden.Run, what string, got, want []T) {
	r.Helper()
	r.Equal(what, slices.Concat(got), slices.Concat(want))
}
