package vlmtest_test

import (
	"bytes"
	"fmt"
	"image"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// Tolerances of the recorded collection, from the gap between its numbers and
// the same computed in float64.
var (
	featureLimit   = golden.Tolerance{Abs: 5e-5} // image features
	logitLimit     = golden.Tolerance{Abs: 1e-4} // logits, log-probs, entropies, values
	firstLossLimit = golden.Tolerance{Abs: 1e-4}
	laterLossLimit = golden.Tolerance{Rel: 1e-3}
	gradNormLimit  = golden.Tolerance{Rel: 5e-4}
	afterLimit     = golden.Tolerance{Abs: 5e-5}
	afterNormLimit = golden.Tolerance{Rel: 5e-5}
	afterSumLimit  = golden.Tolerance{Abs: 1e-2}
)

// limits are the tolerances that differ between families.
type limits struct {
	hidden golden.Tolerance // hidden states and their norms
	update golden.Tolerance // norm of the first step
	grad   float64          // gradient: a share of its tensor's largest entry
}

func limitsOf(t testing.TB, dir string) limits {
	t.Helper()
	c, err := model.ReadConfig(filepath.Join(dir, "checkpoint"))
	require.NoError(t, err)
	if c.Text.Linear != nil {
		return limits{golden.Tolerance{Abs: 1e-4, Rel: 2e-5}, golden.Tolerance{Rel: 5e-3}, 2 * GradLimit}
	}
	return limits{golden.Tolerance{Abs: 1e-4, Rel: 1e-5}, golden.Tolerance{Rel: 1e-4}, GradLimit}
}

// goldenTokens is a micro-batch that holds all rows of a recorded model at once,
// so that everything is compiled for one size.
const goldenTokens = 1200

// TestModelsAgreeWithTransformers compares each model with everything that was recorded
// from transformers: text, positions, vision tower, decoder, scores, greedy decoding with a
// cache, gradients and three optimiser steps.
func TestModelsAgreeWithTransformers(t *testing.T) {
	t.Parallel()
	eachRecorded(t, func(r *recordedModel) {
		policyDir, criticDir := r.checkpoint()
		o := Options{Backend: devicetest.Backend(), MicroTokens: goldenTokens, HeadTokens: 512}
		if r.Critic {
			o.Critic, o.CriticPath = learn.SeparateCritic, criticDir
		}
		m, err := TryOpen(r.t.Context(), policyDir, o)
		require.NoError(r.t, err)
		defer m.Close()
		l := m.Sets.Actor
		if r.Critic {
			l = m.Sets.Critic
		}
		r.spec = l.Net.Spec
		r.compareText(m)
		r.comparePositions(m)
		r.compareScores(m)
		r.compareHidden(m, l)
		r.compareSaved(m, l)
		if !r.Critic {
			r.compareGreedy(m)
		}
		weights := Read(r.t, l.Weights)
		grads := r.compareTraining(m, l)
		if grads != nil {
			r.compareNoisyTraining(m, l, weights)
		}
		switch { // each mode for one model; package learn compares the modes
		case grads == nil:
		case r.Critic: // with pictures
			o.Recompute = vlm.RecomputeAttention
			r.compareRecompute(policyDir, o, grads)
		case r.spec.Text.Linear != nil && r.spec.Vision == nil: // with states
			o.Recompute = vlm.RecomputeBlocks
			r.compareRecompute(policyDir, o, grads)
		}
	})
}

// compareSaved writes a checkpoint of the loaded model. Its tensors have the names, types
// and bytes of the recorded checkpoint, so that every program that loads that one loads
// it, too.
func (r *recordedModel) compareSaved(m *Model, l *learn.Learner) {
	folder := learn.ActorFolder
	if l == m.Sets.Critic {
		folder = learn.CriticFolder
	}
	dir := filepath.Join(r.t.TempDir(), "saved")
	require.NoError(r.t, m.Save(r.t.Context(), dir))
	r.sameTensors(safetensors.OpenSharded, filepath.Join(r.dir, "checkpoint"), filepath.Join(dir, folder))
}

// sameTensors compares the tensors of two checkpoints.
func (r *recordedModel) sameTensors(open func(string) (*safetensors.Reader, error), was, saved string) {
	want, err := open(was)
	require.NoError(r.t, err)
	defer want.Close()
	got, err := open(saved)
	require.NoError(r.t, err)
	defer got.Close()
	names := slices.DeleteFunc(want.Names(), func(name string) bool { return strings.HasPrefix(name, "mtp.") }) // not read
	require.ElementsMatch(r.t, names, got.Names())
	for _, name := range names {
		a, _ := want.Info(name)
		b, _ := got.Info(name)
		require.Equal(r.t, a, b)
		x, err := want.Bytes(name)
		require.NoError(r.t, err)
		y, err := got.Bytes(name)
		require.NoError(r.t, err)
		golden.Equal(r.t, r.tally, name+" is saved as it was", bytes.Equal(x, y), true)
	}
}

// compareText renders and tokenises the prompts.
func (r *recordedModel) compareText(m *Model) {
	for _, row := range r.rows {
		prompt := row.test.Prompts[row.row]
		msgs := prompt.messages(r.t, r.all.Images[row.index])
		what := fmt.Sprintf("%s row %d: ", row.test.Name, row.row)
		_, pics, errs := m.Text.PrepareImages([][]image.Image{imagesOf(msgs)})
		require.NoError(r.t, errs[0])
		ids, _, err := m.Gen.EncodePrompt(policy.Prompt{Messages: msgs}, pics[0])
		require.NoError(r.t, err)
		tokens, _ := r.tokens(row)
		for k, column := range row.column {
			if column == row.test.PromptLen {
				tokens = tokens[:k]
				break
			}
		}
		golden.Equal(r.t, r.tally, what+"tokens", fmt.Sprint(ids), fmt.Sprint(tokens))
	}
}

func (r *recordedModel) comparePositions(m *Model) {
	for _, row := range r.rows {
		name := row.test.Name
		tokens, _ := r.tokens(row)
		var grids []net.Grid
		for _, im := range r.all.Images[row.index] {
			pic, err := m.Text.Picture(im)
			require.NoError(r.t, err)
			grids = append(grids, pic.Grid)
		}
		pos, next, err := net.Positions(m.Cfg, tokens, grids)
		require.NoError(r.t, err)
		want := r.ints(name + ".position_ids")
		b, t := row.test.Shape[0], row.test.Shape[1]
		var got, expected []int64
		for axis := range len(r.dims(name + ".position_ids")) { // three axes of which one is recorded for text models
			if axis > 0 && m.Cfg.Vision == nil {
				break
			}
			for k, column := range row.column {
				got = append(got, int64(pos[k][axis]))
				expected = append(expected, want[(axis*b+row.row)*t+column])
			}
		}
		golden.Equal(r.t, r.tally, name+": position ids", fmt.Sprint(got), fmt.Sprint(expected))
		if r.has(name + ".rope_deltas") {
			golden.Equal(r.t, r.tally, name+": rope delta", int64(next)-int64(len(tokens)),
				r.ints(name + ".rope_deltas")[row.row])
		}
		if r.has(name + ".image_grid_thw") {
			first := 0
			for _, other := range r.rows {
				if other.test == row.test && other.row < row.row {
					first += len(r.all.Images[other.index])
				}
			}
			for i, g := range grids {
				thw := r.ints(name + ".image_grid_thw")[3*(first+i):]
				golden.Equal(r.t, r.tally, name+": grid", fmt.Sprint(g.H, g.W), fmt.Sprint(thw[1], thw[2]))
			}
		}
	}
}

// compareScores compares log-probs and entropies, or values, of all rows in one call.
func (r *recordedModel) compareScores(m *Model) {
	got := r.scoreAll(m, policy.ScoreRequest{LogProbs: !r.Critic, Entropy: !r.Critic, Values: r.Critic})
	for _, row := range r.rows {
		if r.Critic {
			r.compareColumn(row.test.Name+".values", row, got.Values)
			continue
		}
		r.compareColumn(row.test.Name+".logprobs", row, got.LogProbs)
		r.compareColumn(row.test.Name+".entropy", row, got.Entropy)
	}
}

func (r *recordedModel) scoreAll(m *Model, what policy.ScoreRequest) *policy.Scores {
	got, err := m.Score(r.t.Context(), &r.all, Trues(len(r.all.Tokens)), what, 1)
	require.NoError(r.t, err)
	return got
}

// compareColumn compares the numbers of a row's tokens with those recorded of its case under key. The number at a
// token is that of the position before it.
func (r *recordedModel) compareColumn(key string, row recordedRow, got []float32) {
	if !r.has(key) {
		return
	}
	recorded, width := r.floats(key), r.dims(key)[1]
	var want []float64
	for _, column := range row.column[1:] {
		want = append(want, recorded[row.row*width+column-1])
	}
	_, from := r.tokens(row)
	golden.Floats(r.t, r.tally, fmt.Sprintf("%s row %d", key, row.row), got[from+1:from+len(row.column)], want,
		logitLimit)
}

// place is where a row lies in a pack.
type place struct{ pack, first int }

// places finds the rows in the packs by the tokens that are to be scored: those
// of each row but its first.
func (r *recordedModel) places(packs []*net.Pack) []place {
	out := make([]place, len(r.rows))
	for i, p := range packs {
		for k, source := range p.Source {
			if row, ok := slices.BinarySearch(r.all.Offsets, source-1); ok {
				out[row] = place{i, int(p.At[k])}
			}
		}
	}
	return out
}

// compareGreedy decodes all recorded continuations in one batch: from left-padded
// contexts of different lengths, with a recent segment that moves to the prefix
// twice.
func (r *recordedModel) compareGreedy(m *Model) {
	type target struct {
		row recordedRow
		req *generate.Turn
	}
	var targets []target
	var reqs []*generate.Turn
	most := 0
	for _, row := range r.rows {
		field := row.test.Name + ".greedy_ids"
		if !r.has(field) {
			continue
		}
		tokens, _ := r.tokens(row)
		most = max(most, r.dims(field)[1])
		q := &generate.Turn{Tokens: tokens, Max: r.dims(field)[1]}
		for _, im := range r.all.Images[row.index] {
			pic, err := m.Text.Picture(im)
			require.NoError(r.t, err)
			q.Images = append(q.Images, pic)
		}
		targets, reqs = append(targets, target{row, q}), append(reqs, q)
	}
	require.NotEmpty(r.t, reqs)
	s := &generate.Session{Net: generate.Programs{Net: m.Net},
		Rows: make([]*generate.Conversation, generate.RowBucket(len(reqs)))}
	for i := range reqs {
		s.Rows[i] = &generate.Conversation{Batch: s, Row: i, Pending: -1}
	}
	defer s.Free()
	c, err := generate.NewScheduler(generate.Programs{Net: m.Net}, m.Sets.Actor.Parts, policy.Sampling{MaxTokens: most},
		nil, &generate.Settings{MaxRows: len(reqs)})
	require.NoError(r.t, err)
	defer c.Free()
	c.RecentTokens = 8
	f := c.NewDecodeBatch(s)
	for i, q := range reqs {
		f.Assign(i, q)
	}
	require.NoError(r.t, c.Run(r.t.Context(), []*generate.DecodeBatch{f}))
	for i, target := range targets {
		name, row := target.row.test.Name, target.row.row
		n := target.req.Max
		ids := r.ints(name + ".greedy_ids")[row*n : (row+1)*n]
		logProbs := r.floats(name + ".greedy_logprobs")[row*n : (row+1)*n]
		margins := r.floats(name + ".greedy_margin")[row*n : (row+1)*n]
		got := f.Sequences[i].Reply
		for k, id := range ids {
			// Both logits may differ by the tolerance; and placeholders of images,
			// which random weights may write, are never sampled here.
			if margins[k] < 2*logitLimit.Abs || slices.Contains(m.Cfg.Placeholders(), int32(id)) {
				break
			}
			require.Greater(r.t, len(got.Tokens), k, "%s row %d", name, row)
			what := fmt.Sprintf("%s row %d: greedy token %d", name, row, k)
			golden.Equal(r.t, r.tally, what, int64(got.Tokens[k]), id)
			r.tally.Float(r.t, what+" log-prob", float64(got.LogProbs[k]), logProbs[k], logitLimit)
		}
	}
}
