package vlmtest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// compareHidden runs the forward pass of training, which keeps the hidden states between
// the blocks, and compares them with the recorded ones.
func (r *recordedModel) compareHidden(m *Model, l *learn.Learner) {
	r.eachPass(m, l, true, func(trace *net.Trace, i int, at []place) {
		h := newHiddenStates(r.t, l, trace)
		for _, row := range r.rows {
			if at[row.index].pack == i {
				r.compareDecoder(h, row, at[row.index].first)
				r.compareInside(l, trace, row, at[row.index].first)
			}
		}
		if trace.Pack.Vision != nil {
			for _, name := range r.names() {
				r.compareVision(h, name, i, at)
			}
		}
	})
}

// eachPass runs the forward pass on each pack of all rows. visit gets it, its pack's number and the places of the rows.
func (r *recordedModel) eachPass(m *Model, l *learn.Learner, train bool, visit func(*net.Trace, int, []place)) {
	packs, err := m.Sets.Packer(l.Net).Packs(&r.all, Trues(len(r.all.Tokens)))
	require.NoError(r.t, err)
	at := r.places(packs)
	for i, p := range packs {
		trace, err := l.Net.Forward(l.Parts, p, train)
		require.NoError(r.t, err)
		visit(trace, i, at)
		trace.Free()
	}
}

// logitsOf are the logits at all positions of a pass.
func logitsOf(t *testing.T, l *learn.Learner, trace *net.Trace) []float32 {
	head := l.Net.Head(true, false)
	out, err := l.Net.Dev.Program("logits", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{head.Logits(head.Weights(in[:2]), in[2])}
	}).Run(append(l.Net.HeadInputs(head, l.Parts), trace.X))
	require.NoError(t, err)
	defer out[0].Free()
	x, err := device.ReadNew[float32](out[0])
	require.NoError(t, err)
	return x
}

// hiddenStates are the matrices of a pass as the recording has them.
type hiddenStates struct {
	width  int
	states [][]float32 // decoder input, after each layer before deepstack
	final  []float64   // after the final norm
	logits []float32   // nil for a critic

	visionWidth int
	vision      [][]float32 // after the patch embedding before positions, after each block
	images      []float32
	deep        [][]float32
	imageRow    []int32
}

func newHiddenStates(t *testing.T, l *learn.Learner, trace *net.Trace) *hiddenStates {
	n := l.Net
	read := func(a *device.Array) []float32 {
		x, err := device.ReadNew[float32](a)
		require.NoError(t, err)
		return x
	}
	h := &hiddenStates{width: n.Cfg.Text.Hidden, imageRow: trace.Pack.ImageRow}
	for _, kept := range trace.Kept {
		h.states = append(h.states, read(kept[0]))
	}
	h.states = append(h.states, read(trace.X))
	norm := read(l.Parts.Head[0])
	for i := range norm {
		if n.Cfg.Text.PlusOne {
			norm[i]++
		}
	}
	for i := 0; i < len(h.states[0]); i += h.width {
		h.final = append(h.final, rmsNorm(h.states[len(h.states)-1][i:i+h.width], norm, n.Cfg.Text.Eps)...)
	}
	if !n.Spec.Critic {
		h.logits = logitsOf(t, l, trace)
	}
	if trace.Pack.Vision == nil {
		return h
	}
	h.images = read(trace.Images)
	for _, d := range trace.Deep {
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
	h.visionWidth = n.Cfg.Vision.Hidden
	for _, kept := range trace.Vkept {
		h.vision = append(h.vision, read(kept[0]))
	}
	h.vision = append(h.vision, read(trace.Vout[len(trace.Vout)-1]))
	if v := trace.Pack.Vision; v.Table != nil {
		table := read(l.Parts.Patch[2])
		for i, entry := range v.Table {
			for j := range h.visionWidth {
				h.vision[0][i/4*h.visionWidth+j] -= v.TableW[i] * table[int(entry)*h.visionWidth+j]
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
			golden.Floats(r.t, r.tally, fmt.Sprintf("%shidden_norms[%d]", what, k), norms, expected, r.hidden)
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
		golden.Floats(r.t, r.tally, what+"hidden_final", h.final[first*h.width:(first+len(row.column))*h.width], expected,
			r.hidden)
	}
	r.compareLogits(name+".logits", row, h.logits, first)
	r.compareLogits(name+".logits_last", row, h.logits, first)
}

// compareLogits compares the logits of a row, whose first token is at place first of a pass, with those recorded under
// key: at the last positions of the case.
func (r *recordedModel) compareLogits(key string, row recordedRow, logits []float32, first int) {
	if !r.has(key) {
		return
	}
	want, dims := r.floats(key), r.dims(key)
	kept, vocab := dims[1], dims[2]
	for i, column := range row.column {
		if k := column - (row.test.Shape[1] - kept); k >= 0 {
			what := fmt.Sprintf("%s row %d position %d", key, row.row, k)
			golden.Floats(r.t, r.tally, what, logits[(first+i)*vocab:][:vocab],
				want[(row.row*kept+k)*vocab:][:vocab], logitLimit)
		}
	}
}

// compareInside compares what is recorded of the inside of Qwen3.5's layers with what training keeps of them. The
// window of the convolution is the last columns of its input.
func (r *recordedModel) compareInside(l *learn.Learner, trace *net.Trace, row recordedRow, first int) {
	t, last := row.test.Shape[1], row.column[len(row.column)-1]
	for i, kept := range trace.Kept {
		compare := func(field string, width int, from, to int, number func(token, k int) float32) {
			if !r.has(row.test.Name + field) {
				return
			}
			recorded := r.floats(row.test.Name + field)
			var got, want []float64
			for c, column := range row.column {
				for k := 0; k < width && column >= from && column < to; k++ {
					at := ((row.row*t)+column)*width + k
					if strings.HasSuffix(field, ".conv_state") {
						at = (row.row*width+k)*(to-from) + column - from
					}
					got, want = append(got, float64(number(first+c, k))), append(want, recorded[at])
				}
			}
			golden.Floats(r.t, r.tally, fmt.Sprintf("%s%s row %d", row.test.Name, field, row.row), got, want, r.hidden)
		}
		numbers := func(a *device.Array) func(token, k int) float32 {
			width := a.Shape().Dimensions[1]
			x, err := device.ReadNew[float32](a)
			require.NoError(r.t, err)
			return func(token, k int) float32 { return x[token*width+k] }
		}
		layer := "full"
		if shape := l.Net.Cfg.Text.Linear; shape != nil && l.Net.Cfg.Text.Types[i] != "full_attention" {
			layer = "linear"
			compare(fmt.Sprintf(".linear%d.mixed_qkv", i), shape.Channels(), 0, t, numbers(kept[1]))
			compare(fmt.Sprintf(".linear%d.core", i), shape.ValueHeads*shape.ValueDim, 0, t, numbers(kept[2]))
			compare(fmt.Sprintf(".linear%d.conv_state", i), shape.Channels(), last+1-shape.Kernel, last+1, numbers(kept[1]))
		}
		field := fmt.Sprintf(".%s%d.out", layer, i)
		if r.has(row.test.Name + field) {
			before, after := numbers(kept[0]), numbers(kept[3])
			compare(field, l.Net.Cfg.Text.Hidden, 0, t, func(token, k int) float32 { return after(token, k) - before(token, k) })
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
	golden.Floats(r.t, r.tally, name+": image_embeds", take(h.images, h.width, rows), r.floats(name+".image_embeds"),
		featureLimit)
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
		golden.Floats(r.t, r.tally, fmt.Sprintf("%s: vision_hidden_norms[%d]", name, k), norms, want[k*patches:(k+1)*patches],
			r.hidden)
	}
}
