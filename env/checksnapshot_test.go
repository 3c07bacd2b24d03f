package env_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
)

// counting is an environment with a number as its state, and a flaw.
type counting struct {
	n, hidden uint64
	reset     bool
	flaw      string
}

func (c *counting) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "count"}, nil
}

func (c *counting) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	c.n, c.hidden, c.reset = uint64(seed), 0, true
	return c.observe(), ctx.Err()
}

func (c *counting) Step(ctx context.Context, response string) (env.Outcome, error) {
	if !c.reset {
		return env.Outcome{}, env.ErrNotReset
	}
	c.n += uint64(len(response)%7) + 1
	c.hidden++
	return env.Outcome{Observation: c.observe()}, ctx.Err()
}

func (c *counting) Close() error { return nil }

func (c *counting) observe() env.Observation {
	return env.Observation{Text: fmt.Sprint(c.n, c.hidden)}
}

func (c *counting) Snapshot() ([]byte, error) {
	if !c.reset && c.flaw != "early" {
		return nil, env.ErrNotReset
	}
	if c.flaw == "none" {
		return nil, env.ErrNoSnapshot
	}
	if c.flaw == "fails" {
		return nil, fmt.Errorf("the disk is full")
	}
	if c.flaw == "changes" {
		c.hidden++
	}
	b := binary.BigEndian.AppendUint64([]byte("n"), c.n)
	if c.flaw == "forgets" {
		return b, nil
	}
	return binary.BigEndian.AppendUint64(b, c.hidden), nil
}

func (c *counting) Restore(_ context.Context, state []byte) error {
	hidden := uint64(0)
	if c.flaw == "forgets" && len(state) == 9 {
		hidden = c.hidden
	} else if len(state) != 17 {
		if c.flaw == "panics" {
			_ = state[16]
		}
		if c.flaw == "accepts" {
			return nil
		}
		if c.flaw == "other error" {
			return fmt.Errorf("bad bytes")
		}
		return env.ErrSnapshot
	}
	if state[0] != 'n' {
		if c.flaw == "breaks" {
			c.n++
		}
		return env.ErrSnapshot
	}
	if c.flaw == "refuses" {
		return env.ErrSnapshot
	}
	c.n = binary.BigEndian.Uint64(state[1:])
	if len(state) == 17 {
		hidden = binary.BigEndian.Uint64(state[9:])
	}
	c.hidden, c.reset = hidden, true
	return nil
}

func TestCheckFindsFlawedSnapshots(t *testing.T) {
	for flaw, want := range map[string]string{
		"": "", "none": "",
		"early":       "before Reset returned no error",
		"fails":       "Snapshot failed: the disk is full",
		"changes":     "after snapshots were made: observation",
		"forgets":     "observation: text",
		"accepts":     "must wrap ErrSnapshot",
		"other error": "returned bad bytes, must wrap ErrSnapshot",
		"panics":      "panicked",
		"breaks":      "changed the state",
		"refuses":     "Restore in another instance failed",
	} {
		report, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) {
			return &counting{flaw: flaw}, nil
		}, env.CheckOptions{})
		require.NoError(t, err)
		if want == "" {
			require.NoError(t, report.Err(), flaw)
			continue
		}
		var found []string
		for _, p := range report.Problems {
			require.Contains(t, []string{"snapshot", "panic"}, p.Rule, "%s: %v", flaw, p)
			found = append(found, p.Detail)
		}
		require.Contains(t, strings.Join(found, "\n"), want, flaw)
	}
}

// hidesSnapshots has none of the optional methods of counting.
type hidesSnapshots struct{ env.Env }

func TestJudgedPassesOnSnapshots(t *testing.T) {
	j := env.Judged{Env: &counting{}}
	envtest.Reset(t, j, 3)
	state, err := j.Snapshot()
	require.NoError(t, err)
	other := env.Judged{Env: &counting{}}
	require.NoError(t, other.Restore(t.Context(), state))
	require.Equal(t, j.Env, other.Env)
	require.NoError(t, j.Reseed(1), "an environment that draws nothing has nothing to restart")

	j = env.Judged{Env: hidesSnapshots{&counting{}}}
	_, err = j.Snapshot()
	require.ErrorIs(t, err, env.ErrNoSnapshot)
	require.ErrorIs(t, j.Restore(t.Context(), state), env.ErrNoSnapshot)
}
