package vlmtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
)

// Update takes a step on all ranks.
func Update(
	t testing.TB, s *learn.Sets, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	t.Helper()
	return s.Learn(t.Context(), &learn.Call{Batch: b, Objective: o, Optimizer: opt, Accumulate: true, Step: true})
}

// Imitate runs one step of imitation.
func (p Parts) Imitate(t testing.TB, rows policy.Rows, want []bool, rate float64) policy.Stats {
	t.Helper()
	opt := policy.DefaultOptimizer()
	opt.Rate = rate
	stats, err := Update(t, p.Sets, &policy.Batch{Rows: rows, Weight: Evenly(want)},
		policy.Objective{Imitate: true, Temperature: 1}, opt)
	require.NoError(t, err)
	require.False(t, stats.Skipped)
	return stats
}

// Still is an optimiser that changes no weight; its first moment is the gradient.
var Still = policy.Optimizer{Epsilon: 1}

// GradientsOf returns the gradients of the policy, and of a separate critic; nil
// where there is none.
func (p Parts) GradientsOf(
	t testing.TB, b *policy.Batch, o policy.Objective,
) (actor, critic map[string][]float32, stats policy.Stats) {
	t.Helper()
	stats, err := Update(t, p.Sets, b, o, Still)
	require.NoError(t, err)
	require.False(t, stats.Skipped)
	if p.Sets.Actor.Adam != nil {
		actor = Read(t, p.Sets.Actor.Adam.M)
	}
	if s := p.Sets; s.Critic != nil && s.Critic.Adam != nil {
		critic = Read(t, s.Critic.Adam.M)
	}
	return actor, critic, stats
}

// PlayedBatch is a batch for every loss: random advantages, old log-probs and
// values near those of the model, and a reference further away.
func (p Parts) PlayedBatch(t testing.TB) *policy.Batch {
	t.Helper()
	rows, want := p.FourRows(t)
	what := policy.ScoreRequest{LogProbs: true, Values: p.Sets.CriticOptions.Kind != learn.NoCritic}
	scores, err := p.Sets.Score(t.Context(), learn.ScoreCall{Rows: &rows, Want: want, What: what, Temperature: 1})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(9, 1))
	n := len(want)
	b := &policy.Batch{Rows: rows, Weight: Evenly(want),
		Advantages: make([]float32, n), OldLogProbs: make([]float32, n), Reference: make([]float32, n)}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = Evenly(want), make([]float32, n), make([]float32, n)
	}
	for i := range n {
		if !want[i] {
			continue
		}
		b.Weight[i] *= float32(r.IntN(3)) // some tokens count twice, some not at all
		b.Advantages[i] = float32(r.NormFloat64())
		b.OldLogProbs[i] = scores.LogProbs[i] + float32(0.4*r.NormFloat64())
		b.Reference[i] = scores.LogProbs[i] + float32(r.NormFloat64())
		if what.Values {
			b.ValueWeight[i] *= float32(r.IntN(2))
			b.OldValues[i] = scores.Values[i] + float32(0.5*r.NormFloat64())
			b.Returns[i] = scores.Values[i] + float32(r.NormFloat64())
		}
	}
	return b
}

// ConfigOf reads a folder's config.json.
func ConfigOf(t testing.TB, dir string) *model.Config {
	t.Helper()
	cfg, err := model.ReadConfig(dir)
	require.NoError(t, err)
	return cfg
}

// Files reads a folder.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := regular.ReadFile(filepath.Join(dir, path))
		out[path] = string(raw)
		return err
	}))
	return out
}

// RequireSameFiles compares all files of two folders.
func RequireSameFiles(t testing.TB, want, got string) {
	t.Helper()
	a, b := Files(t, want), Files(t, got)
	require.Equal(t, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	require.NotEmpty(t, a)
	for name := range a {
		require.True(t, a[name] == b[name], "%s differs", name)
	}
}

// digestOf is the SHA-256 of tensors.
func digestOf(all ...*weights.Tensors) (string, error) {
	h := sha256.New()
	for _, x := range all {
		if err := x.Each(nil, func(part model.Stored, values []float32) error {
			_, err := io.WriteString(h, part.Name)
			return errors.Join(err, binary.Write(h, binary.LittleEndian, values))
		}); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// StateOf digests weights and moments. It also checks that all devices have the same weights.
func (p Parts) StateOf(t testing.TB) map[string]string {
	t.Helper()
	out, err := Digests(p.Sets)
	require.NoError(t, err)
	return out
}

// Digests is StateOf for goroutines that may not end a test.
func Digests(s *learn.Sets) (map[string]string, error) {
	out := map[string]string{}
	for name, l := range map[string]*learn.Learner{"actor": s.Actor, "critic": s.Critic, "reference": s.Ref} {
		if l == nil {
			continue
		}
		err := l.Unpark()
		if err == nil {
			out[name], err = digestOf(l.Weights)
		}
		for i, r := range l.Replicas {
			if replica, errR := digestOf(r.Weights); err == nil && replica != out[name] {
				err = errors.Join(errR, fmt.Errorf("%s on device %d differs", name, i))
			}
		}
		if l.Adam != nil && err == nil {
			var moments string
			moments, err = digestOf(l.Adam.M, l.Adam.V)
			out[name+" moments"] = fmt.Sprint(moments, l.Adam.Steps)
		}
		if err = errors.Join(err, l.Park()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Lived is what a model wrote, scored and reported.
type Lived struct {
	Played []policy.Completion
	Scores []*policy.Scores
	Stats  []policy.Stats
}

// Live plays ten conversations of two turns, some of them with pictures, and learns from them.
func (m *Model) Live(t testing.TB, round int, out *Lived) {
	t.Helper()
	var keys []uint64
	var prompts []policy.Prompt
	for i := range 10 {
		key := uint64(100*round + i)
		p := policy.Prompt{Conversation: key, Messages: Say([]string{"left", "go right"}[i%2]), Seed: key}
		if i%3 == 0 && m.Cfg.Vision != nil {
			p.Messages = Say("<image> goal?", Drawing(uint64(i), 16, 8*(1+i/3)))
		}
		keys, prompts = append(keys, key), append(prompts, p)
	}
	played := Stories{}
	out.Played = append(out.Played, played.Play(t, m, prompts, policy.Sampling{Temperature: 1, MaxTokens: 5})...)
	for i := range prompts {
		prompts[i].Messages, prompts[i].Seed = Say("on"), uint64(1000+i)
	}
	out.Played = append(out.Played, played.Play(t, m, prompts[:7], policy.Sampling{Temperature: 1, MaxTokens: 4})...)
	for i := range out.Played {
		out.Played[i].Images = nil // pictures are not results
	}
	m.Forget(keys...)

	rows, written, logProbs := played.Rows(keys)
	what := policy.ScoreRequest{LogProbs: true, Entropy: true, Values: m.Sets.CriticOptions.Kind != learn.NoCritic,
		Reference: m.Sets.Reference}
	scores, err := m.Score(t.Context(), &rows, written, what, 1)
	require.NoError(t, err)
	out.Scores = append(out.Scores, scores)
	n := len(rows.Tokens)
	b := &policy.Batch{Rows: rows, Weight: Evenly(written), Advantages: make([]float32, n), OldLogProbs: logProbs,
		Reference: scores.Reference}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = Evenly(written), scores.Values, make([]float32, n)
	}
	for i := range n {
		b.Advantages[i] = float32(i%5) - 2
		if what.Values {
			b.Returns[i] = float32(i % 3)
		}
	}
	m.liveSteps(t, b, what, out)
}

// liveSteps takes a step with a built-in loss, one with a loss of another package in three calls, and one that is
// skipped.
func (m *Model) liveSteps(t testing.TB, b *policy.Batch, what policy.ScoreRequest, out *Lived) {
	t.Helper()
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate, opt.GradClip = 0.01, 0.01, 0.5
	for _, kind := range []loss.Policy{loss.PPO{Low: 0.2, High: 0.2, Clamp: true},
		OwnLoss{loss.GSPO{Low: 0.2, High: 0.2}}} {
		aim := policy.Objective{Temperature: 1, Policy: kind, EntropyCoef: 0.1}
		if what.Reference {
			aim.KL, aim.KLCoef = "k3", 0.1
		}
		if what.Values {
			aim.ValueCoef, aim.ValueClip = 0.5, 0.2
		}
		if _, own := kind.(OwnLoss); own { // of this package, in three calls
			for range 2 {
				stats, err := m.Accumulate(t.Context(), b, aim)
				require.NoError(t, err)
				out.Stats = append(out.Stats, stats)
			}
			stats, err := m.Step(t.Context(), opt)
			require.NoError(t, err)
			require.False(t, stats.Skipped)
			out.Stats = append(out.Stats, stats)
			continue
		}
		stats, err := m.Update(t.Context(), b, aim, opt)
		require.NoError(t, err)
		require.False(t, stats.Skipped)
		out.Stats = append(out.Stats, stats)
	}
	opt.MaxGradNorm = 1e-9 // reached by any gradient
	before := m.StateOf(t)
	stats, err := m.Update(t.Context(), b, policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 0.2, High: 0.2}}, opt)
	require.NoError(t, err)
	require.True(t, stats.Skipped)
	require.Equal(t, before, m.StateOf(t))
	out.Stats = append(out.Stats, stats)
}

// OwnLoss hides the type of a loss.
type OwnLoss struct{ loss.Policy }

// RequireGradients compares tensor by tensor. Both sides run in float32 with
// sums over tokens in another order, which the layers pass on: GradLimit of a
// tensor's largest entry, as against recorded gradients.
func RequireGradients(t testing.TB, want, got map[string][]float32) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name, x := range want {
		limit := GradLimit * Largest(x)
		require.Positive(t, limit, name)
		for i := range x {
			if off := math.Abs(float64(got[name][i]) - float64(x[i])); !(off <= limit) {
				t.Fatalf("%s[%d] is %v, must be %v (off by %g, allowed %g)", name, i, got[name][i], x[i], off, limit)
			}
		}
	}
}

// GradLimit is the tolerance of a gradient: a share of its tensor's largest entry.
const GradLimit = 1e-4

// Largest is the largest absolute number.
func Largest(x []float32) float64 {
	top := 0.0
	for _, v := range x {
		top = max(top, math.Abs(float64(v)))
	}
	return top
}

// OpenSums are the gradients on the first device.
func OpenSums(t *learn.TreeStep) *weights.Tensors {
	return &weights.Tensors{Groups: net.TrainedGroups(t.Weights.Groups), Arrays: t.Sums[0]}
}

// File is the content of a safetensors file.
type File struct {
	Tensors map[string]safetensors.Tensor
	Values  map[string][]float32
	Meta    map[string]string
}

// Edit rewrites a safetensors file: change may change what is in it.
func Edit(t testing.TB, path string, change func(f *File)) {
	t.Helper()
	r, err := safetensors.Open(path)
	require.NoError(t, err)
	f := File{map[string]safetensors.Tensor{}, map[string][]float32{}, r.Metadata()}
	for _, name := range r.Names() {
		f.Tensors[name], _ = r.Info(name)
		f.Values[name], err = r.Float32(name, nil)
		require.NoError(t, err)
	}
	require.NoError(t, r.Close())
	change(&f)
	var tensors []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(f.Tensors)) {
		x := f.Tensors[name]
		x.Name = name
		tensors = append(tensors, x)
	}
	w, err := safetensors.Create(path, tensors, f.Meta)
	require.NoError(t, err)
	for _, x := range tensors {
		require.NoError(t, w.Float32(x.Name, f.Values[x.Name]))
	}
	require.NoError(t, w.Commit())
}
