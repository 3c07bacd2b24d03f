package credit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/credit"
)

// written are the contents of all files of a measurement.
func written(t testing.TB, m *credit.Measurement) map[string]string {
	t.Helper()
	return traintest.Files(t, filepath.Join(m.Run, credit.Folder))
}

// all changes nothing.
func all(*credit.Measurement) {}

func TestResultsDoNotDependOnWorkersOrInterruptions(t *testing.T) {
	s := newSetup(t, twoTurns(), 20, true)
	measure := func(m *credit.Measurement, workers int) error {
		m.Player.Workers = workers
		_, err := m.Measure(t.Context())
		return err
	}
	one := s.measurement(t, all)
	require.NoError(t, measure(one, 1))
	want := written(t, one)
	require.Len(t, want, 20+20+1, "work and result of each episode, and the table")
	require.Contains(t, want, "step_4/table.json")

	seven := s.measurement(t, all)
	require.NoError(t, measure(seven, 7))
	require.Equal(t, want, written(t, seven))

	// A process that is killed leaves some episodes, and a file that is being written.
	stopped := s.measurement(t, all)
	killed := errors.New("killed")
	s.policy.calls, s.policy.fail = 0, func() error {
		if s.policy.calls > 5 {
			return killed
		}
		return nil
	}
	require.ErrorIs(t, measure(stopped, 2), killed)
	left := written(t, stopped)
	require.Greater(t, len(left), 4)
	require.Less(t, len(left), len(want))
	require.NotContains(t, left, "step_4/table.json")
	testkit.Write(t, filepath.Join(stopped.Run, credit.Folder, "step_4", ".table.json.1-1.tmp"), "{")
	s.policy.fail = nil
	require.NoError(t, measure(stopped, 2))
	require.Equal(t, want, written(t, stopped))

	// What is there is not played again, also for other estimators.
	s.policy.fail = func() error { return killed }
	stopped.Estimators = []string{"masked_gae"}
	require.NoError(t, measure(stopped, 2))
	require.NotEqual(t, want, written(t, stopped))
	stopped.Seed++
	require.ErrorIs(t, measure(stopped, 2), killed)
	stopped.Seed--
	stopped.Identity = "other weights"
	require.ErrorIs(t, measure(stopped, 2), killed)
}

func TestDamagedWorkIsPlayedAgain(t *testing.T) {
	s := newSetup(t, twoTurns(), 4, true)
	m := s.measurement(t, all)
	measured(t, m)
	want := written(t, m)
	var names []string
	for name := range want {
		if strings.HasPrefix(name, filepath.Join("step_4", "work")) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	require.Len(t, names, 4)
	good := want[names[0]]
	for _, bad := range []string{
		"", "{", "[]", "{}", want[names[1]], good[:len(good)/2], strings.Replace(good, `"turn": 0`, `"turn": 7`, 1),
		strings.Replace(good, `"q": [`, `"q": [1,`, 1), strings.Replace(good, `"tokens": `, `"tokens": -`, 1),
		strings.Repeat("[", 1<<20),
	} {
		require.NotEqual(t, good, bad)
		testkit.Write(t, filepath.Join(m.Run, credit.Folder, names[0]), bad)
		measured(t, m)
		require.Equal(t, want, written(t, m), "%.40s", bad)
	}
	// What cannot be read or written is an error.
	require.NoError(t, os.RemoveAll(filepath.Join(m.Run, credit.Folder)))
	testkit.Write(t, filepath.Join(m.Run, credit.Folder), "")
	_, err := m.Measure(t.Context())
	require.Error(t, err)
}

func TestABudgetStopsBetweenBatches(t *testing.T) {
	s := newSetup(t, twoTurns(), 20, true)
	m := s.measurement(t, func(m *credit.Measurement) { m.MaxTokens = 1 })
	var seen []credit.Progress
	m.Done = func(p credit.Progress) { seen = append(seen, p) }
	table := measured(t, m)
	require.Equal(t, 8, table.Episodes)
	require.Contains(t, table.Remarks, "the budget stopped the measurement after 8 of 20 episodes")
	require.Len(t, seen, 1)
	require.Equal(t, 20, seen[0].Of)
	require.Greater(t, seen[0].Tokens, int64(8*16*2*2))

	m.MaxTokens = seen[0].Tokens + 1 // what is there counts
	table = measured(t, m)
	require.Equal(t, 16, table.Episodes)

	m.MaxTokens, m.MaxTime = 0, 1
	table = measured(t, m)
	require.Zero(t, table.Episodes)
	m.MaxTime = 0
	table = measured(t, m)
	require.Equal(t, 20, table.Episodes)
	require.NotContains(t, strings.Join(table.Remarks, " "), "budget")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Seed = 99
	_, err := m.Measure(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// TestReplaysMeasureWhatSnapshotsDo: an environment without snapshots repeats the recorded
// responses; where it shows something else, the turn is left out and counted.
func TestReplaysMeasureWhatSnapshotsDo(t *testing.T) {
	with, without := newSetup(t, twoTurns(), 6, true), newSetup(t, twoTurns(), 6, false)
	a, b := with.measurement(t, all), without.measurement(t, all)
	for _, m := range []*credit.Measurement{a, b} {
		measured(t, m)
	}
	require.Equal(t, written(t, a), written(t, b))

	without.lies = true
	b.Seed = 7
	table := measured(t, b)
	require.Equal(t, 6, table.LeftOut)
	require.Equal(t, 6, table.Turns)
	for _, r := range results(t, b) {
		require.Len(t, r.LeftOut, 1)
		require.Equal(t, 1, r.LeftOut[0].Turn)
		require.Contains(t, r.LeftOut[0].Why, "the observation was")
		require.Len(t, r.Turns, 1)
	}
}

func TestForcedAnswersAndTurnsAreMeasured(t *testing.T) {
	s := newSetup(t, chain(), 6, true)
	m := s.measurement(t, func(m *credit.Measurement) {
		m.Turns, m.Alternatives, m.Force, m.Episodes = []int{1, 5}, 0, []string{"1", "nonsense"}, 4
	})
	table := measured(t, m)
	require.Equal(t, 4, table.Episodes)
	require.Equal(t, 4, table.Turns)
	found := 0
	for _, e := range s.step.Episodes {
		r, err := credit.LoadMeasured(m.Run, credit.Key{Step: 5, Group: e.Group, Index: e.Index})
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		found++
		require.Equal(t, 1, r.Turns[0].Turn)
		require.Len(t, r.Turns[0].Alternatives, 1, "the policy cannot encode the other")
		alt := r.Turns[0].Alternatives[0]
		require.Equal(t, []string{"1"}, alt.Actions)
		_, did := places(t, e)
		require.InDelta(t, []float64{-2, 0}[did[1]], float64(alt.Q)-float64(r.Turns[0].Q), 1e-9)
		require.Zero(t, r.Turns[0].Regret)
		require.Nil(t, r.Mistake)
	}
	require.Equal(t, 4, found)
}

func TestBadOptionsAreRefused(t *testing.T) {
	s := newSetup(t, chain(), 2, true)
	for why, change := range map[string]func(*credit.Measurement){
		"Branches is 1":     func(m *credit.Measurement) { m.Branches = 1 },
		"Gamma is 1.5":      func(m *credit.Measurement) { m.Gamma = 1.5 },
		"Alternatives -1":   func(m *credit.Measurement) { m.Alternatives = -1 },
		"Turns has -2":      func(m *credit.Measurement) { m.Turns = []int{3, -2} },
		"MaxTokens -1":      func(m *credit.Measurement) { m.MaxTokens = -1 },
		"Player is not set": func(m *credit.Measurement) { m.Player = nil },
		"Step is not set":   func(m *credit.Measurement) { m.Step = nil },
		`"gea"`:             func(m *credit.Measurement) { m.Estimators = []string{"gea"} },
	} {
		_, err := s.measurement(t, change).Measure(t.Context())
		testkit.Error(t, err, credit.ErrOptions, why)
	}
	m := s.measurement(t, func(m *credit.Measurement) { m.Params.Gamma = 7 })
	_, err := m.Measure(t.Context())
	require.ErrorIs(t, err, advantage.ErrParameter)
}
