package traintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vagen/policy"
)

func (b *Bandit) Update(
	ctx context.Context, batch *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Updates = append(b.Updates, Update{batch, o, opt})
	s := policy.Stats{Tokens: len(batch.Tokens), HasEntropy: true, HasGradNorm: true}
	if b.Alter != nil {
		if err := b.Alter(batch, &s); err != nil || s.Skipped {
			return s, err
		}
	}
	if err := b.accumulate(batch, o, &s); err != nil {
		return s, err
	}
	b.step(opt, &s)
	return s, ctx.Err()
}

// Accumulate implements policy.Learner.
func (b *Bandit) Accumulate(ctx context.Context, batch *policy.Batch, o policy.Objective) (policy.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := policy.Stats{Tokens: len(batch.Tokens), HasEntropy: true}
	return s, errors.Join(b.accumulate(batch, o, &s), ctx.Err())
}

// Step implements policy.Learner.
func (b *Bandit) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := policy.Stats{HasGradNorm: true}
	b.step(opt, &s)
	return s, ctx.Err()
}

// gradient is that of a table.
type gradient struct {
	prefs  map[int32][]float64
	values map[int32]float64
}

// accumulate adds the gradient of the objective's policy loss and of its value loss. KL and entropy terms have no
// gradient here.
func (b *Bandit) accumulate(batch *policy.Batch, o policy.Objective, stats *policy.Stats) error {
	scores := &policy.Scores{LogProbs: make([]float32, len(batch.Tokens)), Values: make([]float32, len(batch.Tokens)),
		Entropy: make([]float32, len(batch.Tokens))}
	each(&batch.Rows, func(i int, s int32) {
		if scores.Values[i] = float32(b.Values[s]); b.IsWord(batch.Tokens[i]) {
			scores.LogProbs[i] = float32(b.logProb(batch.Tokens[i], s, o.Temperature))
			for _, p := range b.probs(s, o.Temperature) {
				scores.Entropy[i] -= float32(p * math.Log(p))
			}
		}
	})
	o.KLCoef, o.EntropyCoef = 0, 0
	e, err := o.Eval(batch, scores)
	if err != nil {
		return err
	}
	entropy, value := stats.Entropy, stats.ValueLoss // what Alter added
	e.Report(stats)
	stats.Entropy, stats.ValueLoss, stats.Metrics = stats.Entropy+entropy, stats.ValueLoss+value, nil
	if b.sum.prefs == nil {
		b.sum = gradient{map[int32][]float64{}, map[int32]float64{}}
	}
	each(&batch.Rows, func(i int, s int32) {
		if e.Slopes.LogProbs != nil && e.Slopes.LogProbs[i] != 0 && b.IsWord(batch.Tokens[i]) {
			if b.sum.prefs[s] == nil {
				b.sum.prefs[s] = make([]float64, len(b.Words))
			}
			for k, p := range b.probs(s, o.Temperature) {
				b.sum.prefs[s][k] += e.Slopes.LogProbs[i] * p
			}
			b.sum.prefs[s][batch.Tokens[i]] -= e.Slopes.LogProbs[i]
		}
		if e.Slopes.Values != nil {
			b.sum.values[s] += e.Slopes.Values[i]
		}
	})
	return nil
}

// step changes the table along the gradient.
func (b *Bandit) step(opt policy.Optimizer, stats *policy.Stats) {
	for _, s := range slices.Sorted(maps.Keys(b.sum.prefs)) {
		if b.Prefs[s] == nil {
			b.Prefs[s] = make([]float64, len(b.Words))
		}
		for k, g := range b.sum.prefs[s] {
			b.Prefs[s][k] += opt.Rate * g
			stats.GradNorm += g * g
		}
	}
	for _, s := range slices.Sorted(maps.Keys(b.sum.values)) {
		b.Values[s] -= opt.CriticRate * b.sum.values[s]
	}
	stats.GradNorm, b.sum = math.Sqrt(stats.GradNorm), gradient{}
}

// table is the content of a bandit's checkpoint.
type table struct {
	Prefs  map[int32][]float64
	Values map[int32]float64
}

func (b *Bandit) Table() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Marshal(table{b.Prefs, b.Values})
}

// WorkerPolicy returns the table for workers.
func (b *Bandit) WorkerPolicy(context.Context) ([]byte, error) { return b.Table() }

func (b *Bandit) Save(_ context.Context, dir string) error {
	raw, err := b.Table()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "table.json"), raw, 0o644)
}

func (b *Bandit) Restore(_ context.Context, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "table.json"))
	if err != nil {
		return err
	}
	return b.SetTable(raw)
}

// SetTable sets what Table returned.
func (b *Bandit) SetTable(raw []byte) error {
	t := table{map[int32][]float64{}, map[int32]float64{}}
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Prefs, b.Values = t.Prefs, t.Values
	return nil
}

// snapshotBandit is a snapshot of a bandit's policy.
type snapshotBandit struct {
	*Bandit
	of *Bandit
}

// SnapshotPolicy implements policy.PolicySnapshotter.
func (b *Bandit) SnapshotPolicy(ctx context.Context) (policy.PolicySnapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := NewBandit(b.Words...)
	c.OnGenerate, c.Drift = b.OnGenerate, b.Drift
	for s, p := range b.Prefs {
		c.Prefs[s] = slices.Clone(p)
	}
	b.SnapshotsAt = append(b.SnapshotsAt, len(b.Updates))
	return snapshotBandit{c, b}, ctx.Err()
}

func (l snapshotBandit) Close() error {
	l.of.mu.Lock()
	l.of.SnapshotsClosed++
	l.of.mu.Unlock()
	if len(l.Opened) > 0 {
		return fmt.Errorf("%d conversations are still open", len(l.Opened))
	}
	return nil
}

// Encode implements policy.Encoder: responses are words of the bandit.
func (b *Bandit) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var out []policy.Piece
	var images []policy.Image
	var pending []policy.Message
	for _, m := range messages {
		if m.Role != policy.Assistant {
			pending = append(pending, m)
			continue
		}
		word := slices.Index(b.Words, m.Text)
		if word < 0 {
			return nil, nil, fmt.Errorf("%q is not a word of the bandit", m.Text)
		}
		context, ims := b.read(pending)
		images, pending = append(images, ims...), nil
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: []int32{int32(word), b.End()}, Response: true})
	}
	return out, images, nil
}
