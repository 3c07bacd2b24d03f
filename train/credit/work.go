package credit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vagen/internal/durable"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// work is what was played for an episode: the returns of its continuations.
type work struct {
	Fingerprint string     `json:"fingerprint"`
	Tokens      int64      `json:"tokens"`
	Turns       []workTurn `json:"turns"`
	LeftOut     []LeftOut  `json:"left_out,omitempty"`
}

// workTurn has the returns of a turn's continuations. Those that cannot be used are
// unknown.
type workTurn struct {
	Turn         int               `json:"turn"`
	Actions      []string          `json:"actions"`
	Q            []Number          `json:"q"`
	V            []Number          `json:"v"`
	Alternatives []workAlternative `json:"alternatives,omitempty"`
}

type workAlternative struct {
	Actions []string `json:"actions"`
	Share   Number   `json:"share"`
	Q       []Number `json:"q"`
}

// tablePath returns the file of the table of a checkpoint in a run's folder.
func tablePath(run string, checkpoint int) string {
	return filepath.Join(workDir(run, checkpoint), "table.json")
}

func workDir(run string, checkpoint int) string {
	return filepath.Join(run, Folder, fmt.Sprintf("step_%d", checkpoint))
}

// together is the number of episodes whose continuations are played in one batch.
const together = 8

// work returns what was played for some episodes, from the disk if all of it is there: the
// rounding of a model may depend on what is played together.
func (m *Measurement) work(ctx context.Context, ts []*rollout.Trajectory) ([]*work, error) {
	out, ids, paths, whole := make([]*work, len(ts)), make([]string, len(ts)), make([]string, len(ts)), true
	for i, t := range ts {
		var err error
		if ids[i], err = m.fingerprint(t); err != nil {
			return nil, err
		}
		// Measurements with other options are kept beside each other.
		paths[i] = filepath.Join(workDir(m.Run, m.Checkpoint), "work",
			fmt.Sprintf("%d-%d-%.12s.json", t.Group, t.Index, ids[i]))
		out[i] = new(work)
		if err = readJSON(paths[i], out[i]); err == nil {
			err = out[i].check(ids[i], m.Branches, len(t.Turns))
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrFile):
			m.Log.Warn("credit file is damaged; measuring the episode again", "file", paths[i], "err", err)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		whole = false
	}
	if whole {
		return out, nil
	}
	out, err := m.play(ctx, ts)
	if err != nil {
		return nil, err
	}
	for i, w := range out {
		w.Fingerprint = ids[i]
		if err := writeJSON(paths[i], w); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// check refuses what play does not return.
func (w *work) check(id string, branches, turns int) error {
	if w.Fingerprint != id || w.Tokens < 0 {
		return fmt.Errorf("%w: it has the fingerprint %.12q and %d tokens", ErrFile, w.Fingerprint, w.Tokens)
	}
	last := -1
	for i := range w.Turns {
		k := &w.Turns[i]
		lengths := []int{len(k.Q), len(k.V)}
		for _, a := range k.Alternatives {
			lengths = append(lengths, len(a.Q))
		}
		if k.Turn <= last || k.Turn >= turns || slices.Min(lengths) != branches || slices.Max(lengths) != branches {
			return fmt.Errorf("%w: turns[%d] is turn %d with %v returns", ErrFile, i, k.Turn, lengths)
		}
		last = k.Turn
	}
	return nil
}

// fingerprint identifies everything that the returns of an episode's continuations depend
// on.
func (m *Measurement) fingerprint(t *rollout.Trajectory) (string, error) {
	p, o := m.Player, &m.Options
	type response struct {
		Row    int
		Text   string
		Reward reward.Parts
	}
	what := struct {
		Identity, Env       string
		Config              map[string]any
		EnvSeed             int64
		Checkpoint, Step    int
		Branches            int
		Alternatives        int
		Force               []string
		Turns               []int
		Gamma               float64
		Seed                uint64
		Sampling            policy.Sampling
		MaxTurns, OfEpisode int
		MaxTokens, MaxObs   int
		Budget, Harness     string
		EpisodeMean         []string
		Group, Index        int
		Tokens              [][]int32
		Responses           []response
	}{
		m.Identity, t.Env, t.Config, t.Seed, m.Checkpoint, m.Played, o.Branches, o.Alternatives, o.Force, o.Turns, o.Gamma,
		o.Seed,
		p.Sampling, p.MaxTurns, t.MaxTurns, t.MaxTokens, t.MaxObservation, fmt.Sprintf("%+v", p.Budget),
		fmt.Sprintf("%T %+v", p.Harness, p.Harness),
		p.EpisodeMean, t.Group, t.Index, nil, nil,
	}
	for i := range t.Rows {
		what.Tokens = append(what.Tokens, t.Rows[i].Tokens())
	}
	for _, k := range t.Turns {
		what.Responses = append(what.Responses, response{k.Row, k.Response, k.Reward})
	}
	raw, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("credit: group %d, episode %d: %w", t.Group, t.Index, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}

// writeJSON writes a file atomically.
func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = durable.WriteFile(path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	return nil
}
