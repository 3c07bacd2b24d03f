package traintest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vagen/policy"
)

func (b *Bandit) Update(ctx context.Context, batch *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Updates = append(b.Updates, Update{batch, o, opt})
	s := policy.Stats{Tokens: len(batch.Tokens), HasEntropy: true, HasGradNorm: true}
	if b.Alter != nil {
		if err := b.Alter(batch, &s); err != nil || s.Skipped {
			return s, err
		}
	}
	if err := b.learn(batch, o, opt, &s); err != nil {
		return s, err
	}
	return s, ctx.Err()
}

// learn does a gradient step on the objective's policy loss and moves values towards
// returns. KL and entropy terms have no gradient here.
func (b *Bandit) learn(batch *policy.Batch, o policy.Objective, opt policy.Optimizer, stats *policy.Stats) error {
	prefs, values := map[int32][]float64{}, map[int32]float64{}
	slope := make([]float64, len(batch.Tokens))
	if !o.CriticOnly {
		logProbs := make([]float32, len(batch.Tokens))
		each(&batch.Rows, func(i int, s int32) { logProbs[i] = float32(b.logProb(batch.Tokens[i], s, o.Temperature)) })
		o.KLCoef = 0
		e, err := o.Eval(batch, logProbs)
		if err != nil {
			return err
		}
		slope = e.Slope
		e.Report(stats, batch)
		stats.Metrics = nil // as in the model's learner for losses of single tokens
	}
	each(&batch.Rows, func(i int, s int32) {
		if w := float64(batch.Weight[i]); w != 0 && b.IsWord(batch.Tokens[i]) && !o.CriticOnly {
			p := b.probs(s, o.Temperature)
			if prefs[s] == nil {
				prefs[s] = make([]float64, len(b.Words))
			}
			for k := range p {
				prefs[s][k] += slope[i] * p[k]
				stats.Entropy -= w * p[k] * math.Log(p[k])
			}
			prefs[s][batch.Tokens[i]] -= slope[i]
		}
		if batch.ValueWeight != nil && batch.ValueWeight[i] != 0 && o.ValueCoef > 0 {
			e := b.Values[s] - float64(batch.Returns[i])
			values[s] += float64(batch.ValueWeight[i]) * e
			stats.ValueLoss += float64(batch.ValueWeight[i]) * e * e / 2
		}
	})
	for _, s := range slices.Sorted(mapKeys(prefs)) {
		if b.Prefs[s] == nil {
			b.Prefs[s] = make([]float64, len(b.Words))
		}
		for k, g := range prefs[s] {
			b.Prefs[s][k] += opt.Rate * g
			stats.GradNorm += g * g
		}
	}
	for _, s := range slices.Sorted(mapKeys(values)) {
		b.Values[s] -= o.ValueCoef * opt.CriticRate * values[s]
	}
	stats.GradNorm = math.Sqrt(stats.GradNorm)
	return nil
}

func mapKeys[V any](m map[int32]V) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
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

// Aligned is a bandit that also reports where its words end.
type Aligned struct{ *Bandit }

func (b Aligned) Ends(tokens []int32) (ends []int) {
	at := 0
	for _, token := range tokens {
		if b.IsWord(token) {
			at += len(b.Words[token])
		}
		ends = append(ends, at)
	}
	return ends
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
