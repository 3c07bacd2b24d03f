package vlm

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
)

// Tolerances of the recorded collection, from the gap between its numbers and
// the same computed in float64.
var (
	featureLimit   = golden.Tolerance{Abs: 5e-5}            // image features
	hiddenLimit    = golden.Tolerance{Abs: 1e-4, Rel: 1e-5} // hidden states and their norms
	logitLimit     = golden.Tolerance{Abs: 1e-4}            // logits, log-probs, entropies, values
	firstLossLimit = golden.Tolerance{Abs: 1e-4}
	laterLossLimit = golden.Tolerance{Rel: 1e-3}
	gradNormLimit  = golden.Tolerance{Rel: 5e-4}
	afterLimit     = golden.Tolerance{Abs: 5e-5}
	updateLimit    = golden.Tolerance{Rel: 1e-4}
	afterNormLimit = golden.Tolerance{Rel: 5e-5}
	afterSumLimit  = golden.Tolerance{Abs: 1e-2}
)

// goldenTokens is a micro-batch that holds all rows of a recorded model at once,
// so that everything is compiled for one size.
const goldenTokens = 1200

// Everything that transformers recorded of every model: text, positions, vision
// tower, decoder, scores, greedy decoding with a cache, gradients and three
// optimiser steps.
func TestModelsAgreeWithTransformers(t *testing.T) {
	recomputed := false
	eachRecorded(t, func(r *recordedModel) {
		policyDir, criticDir := r.checkpoint()
		o := Options{Backend: testBackend(), MicroTokens: goldenTokens}
		if r.Critic {
			o.Critic, o.CriticPath = SeparateCritic, criticDir
		}
		m, err := Open(r.t.Context(), policyDir, o)
		require.NoError(r.t, err)
		defer m.Close()
		l := m.actor
		if r.Critic {
			l = m.critic
		}
		r.spec = l.net.spec
		r.compareText(m)
		r.comparePositions(m)
		r.compareScores(m)
		r.compareHidden(m, l)
		r.compareSaved(m, l)
		if !r.Critic {
			r.compareGreedy(m)
		}
		weights := r.numbers(l, l.weights)
		grads := r.compareTraining(m, l)
		if grads != nil {
			r.compareNoisyTraining(m, l, weights)
		}
		if !recomputed && m.cfg.Vision != nil && grads != nil {
			recomputed = true
			for _, what := range []Recompute{RecomputeAttention, RecomputeBlocks} {
				o.Recompute = what
				r.compareRecompute(policyDir, o, grads)
			}
		}
	})
}

// compareSaved writes a checkpoint of the model as it was loaded. Its tensors have
// the names, types and bytes of the recorded checkpoint, so that it loads where
// that does.
func (r *recordedModel) compareSaved(m *Model, l *learner) {
	folder := actorFolder
	if l == m.critic {
		folder = criticFolder
	}
	dir := filepath.Join(r.t.TempDir(), "saved")
	require.NoError(r.t, m.Save(r.t.Context(), dir))
	got, err := safetensors.OpenSharded(filepath.Join(dir, folder))
	require.NoError(r.t, err)
	defer got.Close()
	want, err := safetensors.OpenSharded(filepath.Join(r.dir, "checkpoint"))
	require.NoError(r.t, err)
	defer want.Close()
	require.ElementsMatch(r.t, want.Names(), got.Names())
	for _, name := range want.Names() {
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
		_, pics, errs := m.prepareImages([][]image.Image{imagesOf(msgs)})
		require.NoError(r.t, errs[0])
		ids, err := m.encode(policy.Prompt{Messages: msgs}, pics[0])
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
		var grids []grid
		for _, im := range r.all.Images[row.index] {
			pic, err := m.picture(im)
			require.NoError(r.t, err)
			grids = append(grids, pic.grid)
		}
		pos, next, err := positions(m.cfg, tokens, grids)
		require.NoError(r.t, err)
		want := r.ints(name + ".position_ids")
		b, t := row.test.Shape[0], row.test.Shape[1]
		var got, expected []int64
		for axis := range len(r.dims(name + ".position_ids")) { // three axes of which one is recorded for text models
			if axis > 0 && m.cfg.Vision == nil {
				break
			}
			for k, column := range row.column {
				got = append(got, int64(pos[k][axis]))
				expected = append(expected, want[(axis*b+row.row)*t+column])
			}
		}
		golden.Equal(r.t, r.tally, name+": position ids", fmt.Sprint(got), fmt.Sprint(expected))
		if r.has(name + ".rope_deltas") {
			golden.Equal(r.t, r.tally, name+": rope delta", int64(next)-int64(len(tokens)), r.ints(name + ".rope_deltas")[row.row])
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
				golden.Equal(r.t, r.tally, name+": grid", fmt.Sprint(g.h, g.w), fmt.Sprint(thw[1], thw[2]))
			}
		}
	}
}

// compareScores asks for log-probs and entropies, or values, of all rows at once.
func (r *recordedModel) compareScores(m *Model) {
	want := make([]bool, len(r.all.Tokens))
	for i := range want {
		want[i] = true
	}
	what := policy.ScoreRequest{LogProbs: true, Entropy: true}
	if r.Critic {
		what = policy.ScoreRequest{Values: true}
	}
	got, err := m.Score(r.t.Context(), &r.all, want, what, 1)
	require.NoError(r.t, err)
	for _, row := range r.rows {
		name, width := row.test.Name, row.test.Shape[1]
		_, from := r.tokens(row)
		n := len(row.column)
		// The number at a token is that of the position before it.
		compare := func(field string, got []float32, width, shift int) {
			if !r.has(name + field) {
				return
			}
			recorded := r.floats(name + field)
			var expected []float64
			for _, column := range row.column[1:] {
				expected = append(expected, recorded[row.row*width+column-shift])
			}
			golden.Floats(r.t, r.tally, fmt.Sprintf("%s row %d: %s", name, row.row, field), got[from+1:from+n], expected, logitLimit)
		}
		if r.Critic {
			compare(".values", got.Values, width, 1)
			continue
		}
		compare(".logprobs", got.LogProbs, width-1, 1)
		compare(".entropy", got.Entropy, width, 1)
	}
}

// place is where a row lies in a pack.
type place struct{ pack, first int }

// places finds the rows in the packs by the tokens that are to be scored: those
// of each row but its first.
func (r *recordedModel) places(packs []*pack) []place {
	out := make([]place, len(r.rows))
	for i, p := range packs {
		for k, source := range p.source {
			if row, ok := slices.BinarySearch(r.all.Offsets, source-1); ok {
				out[row] = place{i, int(p.at[k])}
			}
		}
	}
	return out
}

// compareHidden runs the forward pass of training, which keeps what lies between
// the blocks, and compares it with what was recorded there.
func (r *recordedModel) compareHidden(m *Model, l *learner) {
	want := make([]bool, len(r.all.Tokens))
	for i := range want {
		want[i] = true
	}
	packs, err := m.packer(l.net).packs(&r.all, want)
	require.NoError(r.t, err)
	at := r.places(packs)
	for i, p := range packs {
		trace, err := l.net.forward(l.parts, p, true)
		require.NoError(r.t, err)
		h := newHiddenStates(r.t, m, l, trace)
		for _, row := range r.rows {
			if at[row.index].pack == i {
				r.compareDecoder(h, row, at[row.index].first)
			}
		}
		if p.vision != nil {
			for _, name := range r.names() {
				r.compareVision(h, name, i, at)
			}
		}
		trace.free()
	}
}

// hiddenStates are the matrices of a pass as the recording has them.
type hiddenStates struct {
	width  int
	states [][]float32 // decoder input, after each layer before deepstack
	final  []float64   // after the final norm
	logits []float32   // nil for a critic
	vocab  int

	visionWidth int
	vision      [][]float32 // after the patch embedding before positions, after each block
	images      []float32
	deep        [][]float32
	imageRow    []int32
}

func newHiddenStates(t *testing.T, m *Model, l *learner, trace *trace) *hiddenStates {
	n := l.net
	read := func(a *device.Array) []float32 {
		x, err := device.ReadNew[float32](a)
		require.NoError(t, err)
		return x
	}
	h := &hiddenStates{width: n.cfg.Text.Hidden, vocab: n.cfg.Text.Vocab, imageRow: trace.pack.imageRow}
	for _, kept := range trace.kept {
		h.states = append(h.states, read(kept[0]))
	}
	h.states = append(h.states, read(trace.x))
	norm := read(l.parts.head[0])
	for i := 0; i < len(h.states[0]); i += h.width {
		h.final = append(h.final, rmsNorm(h.states[len(h.states)-1][i:i+h.width], norm, n.cfg.Text.Eps)...)
	}
	if !n.spec.Critic {
		head := n.head(true, false)
		out, err := n.dev.Program("logits", func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{head.Logits(head.Weights(in[:2]), in[2])}
		}).Run(append(n.headInputs(head, l.parts), trace.x))
		require.NoError(t, err)
		h.logits = read(out[0])
		out[0].Free()
	}
	if trace.pack.vision == nil {
		return h
	}
	h.images = read(trace.images)
	for _, d := range trace.deep {
		h.deep = append(h.deep, read(d))
	}
	for k, d := range h.deep { // the recording is from before they are added
		for i, row := range h.imageRow {
			for j := range h.width {
				if row >= 0 {
					h.states[k+1][i*h.width+j] -= d[int(row)*h.width+j]
				}
			}
		}
	}
	h.visionWidth = n.cfg.Vision.Hidden
	for _, kept := range trace.vkept {
		h.vision = append(h.vision, read(kept[0]))
	}
	h.vision = append(h.vision, read(trace.vout[len(trace.vout)-1]))
	if v := trace.pack.vision; v.table != nil {
		table := read(l.parts.patch[2])
		for i, entry := range v.table {
			for j := range h.visionWidth {
				h.vision[0][i/4*h.visionWidth+j] -= v.tableW[i] * table[int(entry)*h.visionWidth+j]
			}
		}
	}
	return h
}

func rmsNorm(x, w []float32, eps float64) []float64 {
	var square float64
	for _, v := range x {
		square += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(square/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) * scale * float64(w[i])
	}
	return out
}

func length[T float32 | float64](x []T) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

func (r *recordedModel) compareDecoder(h *hiddenStates, row recordedRow, first int) {
	name, b, t := row.test.Name, row.test.Shape[0], row.test.Shape[1]
	what := fmt.Sprintf("%s row %d: ", name, row.row)
	if r.has(name + ".hidden_norms") {
		want := r.floats(name + ".hidden_norms")
		level := func(k int, got func(at int) float64) {
			var norms, expected []float64
			for i, column := range row.column {
				norms = append(norms, got(first+i))
				expected = append(expected, want[(k*b+row.row)*t+column])
			}
			golden.Floats(r.t, r.tally, fmt.Sprintf("%shidden_norms[%d]", what, k), norms, expected, hiddenLimit)
		}
		require.Len(r.t, want, (len(h.states)+1)*b*t)
		for k, x := range h.states {
			level(k, func(at int) float64 { return length(x[at*h.width : (at+1)*h.width]) })
		}
		level(len(h.states), func(at int) float64 { return length(h.final[at*h.width : (at+1)*h.width]) })
	}
	if r.has(name + ".hidden_final") {
		want := r.floats(name + ".hidden_final")
		var expected []float64
		for _, column := range row.column {
			expected = append(expected, want[(row.row*t+column)*h.width:(row.row*t+column+1)*h.width]...)
		}
		golden.Floats(r.t, r.tally, what+"hidden_final", h.final[first*h.width:(first+len(row.column))*h.width], expected, hiddenLimit)
	}
	for _, field := range []string{".logits", ".logits_last"} {
		if !r.has(name + field) {
			continue
		}
		want, kept := r.floats(name+field), r.dims(name + field)[1]
		for i, column := range row.column {
			k := column - (t - kept) // among the recorded positions
			if k < 0 {
				continue
			}
			at := (row.row*kept + k) * h.vocab
			golden.Floats(r.t, r.tally, fmt.Sprintf("%s%s[%d]", what, field, k), h.logits[(first+i)*h.vocab:(first+i+1)*h.vocab], want[at:at+h.vocab], logitLimit)
		}
	}
}

// compareVision compares the images of a case that lie in a pack. They do when
// all of the case's rows do.
func (r *recordedModel) compareVision(h *hiddenStates, name string, packIndex int, at []place) {
	var rows []int32 // the merged row of each image token, in the recorded order
	var images [][]int32
	for _, row := range r.rows {
		if row.test.Name != name {
			continue
		}
		if at[row.index].pack != packIndex {
			return
		}
		first := len(rows)
		for i := range row.column {
			if k := h.imageRow[at[row.index].first+i]; k >= 0 {
				rows = append(rows, k)
			}
		}
		for range r.all.Images[row.index] {
			g := r.ints(name + ".image_grid_thw")[3*len(images):]
			n := int(g[0] * g[1] * g[2] / 4)
			images = append(images, rows[first:first+n])
			first += n
		}
		require.Equal(r.t, len(rows), first)
	}
	if len(rows) == 0 {
		return
	}
	take := func(x []float32, width int, rows []int32) (out []float32) {
		for _, k := range rows {
			out = append(out, x[int(k)*width:(int(k)+1)*width]...)
		}
		return out
	}
	golden.Floats(r.t, r.tally, name+": image_embeds", take(h.images, h.width, rows), r.floats(name+".image_embeds"), featureLimit)
	for k, d := range h.deep {
		field := fmt.Sprintf("%s.deepstack_%d", name, k)
		golden.Floats(r.t, r.tally, field, take(d, h.width, rows), r.floats(field), featureLimit)
	}
	want := r.floats(name + ".vision_hidden_norms")
	patches := 4 * len(rows)
	require.Len(r.t, want, len(h.vision)*patches)
	// Inside the tower the patches of an image stand window by window, which is
	// their order here too.
	var inWindows []int32
	for _, image := range images {
		inWindows = append(inWindows, slices.Sorted(slices.Values(image))...)
	}
	for k, x := range h.vision {
		order := inWindows
		if k == 0 {
			order = rows
		}
		var norms []float64
		for _, row := range order {
			for i := range 4 {
				norms = append(norms, length(x[(4*int(row)+i)*h.visionWidth:(4*int(row)+i+1)*h.visionWidth]))
			}
		}
		golden.Floats(r.t, r.tally, fmt.Sprintf("%s: vision_hidden_norms[%d]", name, k), norms, want[k*patches:(k+1)*patches], hiddenLimit)
	}
}

// compareGreedy decodes all recorded continuations in one batch: from left-padded
// contexts of different lengths, with a recent stretch that moves to the prefix
// twice.
func (r *recordedModel) compareGreedy(m *Model) {
	type target struct {
		row recordedRow
		req *request
	}
	var targets []target
	var reqs []*request
	most := 0
	for _, row := range r.rows {
		field := row.test.Name + ".greedy_ids"
		if !r.has(field) {
			continue
		}
		tokens, _ := r.tokens(row)
		most = max(most, r.dims(field)[1])
		q := &request{row: len(reqs), tokens: tokens, max: r.dims(field)[1]}
		for _, im := range r.all.Images[row.index] {
			pic, err := m.picture(im)
			require.NoError(r.t, err)
			q.images = append(q.images, pic)
		}
		targets, reqs = append(targets, target{row, q}), append(reqs, q)
	}
	require.NotEmpty(r.t, reqs)
	s := &session{net: m.net, rows: make([]*rowState, rowBucket(len(reqs)))}
	for i := range reqs {
		s.rows[i] = &rowState{pending: -1}
	}
	defer s.free()
	c, err := newCall(m.net, m.actor.parts, policy.Sampling{MaxTokens: most}, nil, len(reqs))
	require.NoError(r.t, err)
	defer c.free()
	c.recentTokens = 8
	f := c.newDecodeBatch(s)
	for _, q := range reqs {
		f.assign(q)
	}
	require.NoError(r.t, c.run(r.t.Context(), []*decodeBatch{f}))
	for i, target := range targets {
		name, row := target.row.test.Name, target.row.row
		n := target.req.max
		ids := r.ints(name + ".greedy_ids")[row*n : (row+1)*n]
		logProbs := r.floats(name + ".greedy_logprobs")[row*n : (row+1)*n]
		margins := r.floats(name + ".greedy_margin")[row*n : (row+1)*n]
		got := f.sequences[i].reply
		for k, id := range ids {
			// Two logits may both be off by the tolerance; and an image placeholder
			// ends a response.
			if margins[k] < 2*logitLimit.Abs || k == len(got.tokens) && got.vision {
				break
			}
			require.Greater(r.t, len(got.tokens), k, "%s row %d", name, row)
			what := fmt.Sprintf("%s row %d: greedy token %d", name, row, k)
			golden.Equal(r.t, r.tally, what, int64(got.tokens[k]), id)
			r.tally.Float(r.t, what+" log-prob", float64(got.logProbs[k]), logProbs[k], logitLimit)
		}
	}
}
