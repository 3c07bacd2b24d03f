package vlm

import (
	"fmt"
	"log/slog"

	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// Workload is what a Model is going to do, for a MemoryPlan. Rows are of one
// length.
type Workload struct {
	Generate bool // write responses
	Score    bool // compute log-probs or values
	Train    bool // take optimiser steps

	Rows    int // of a batch, or conversations that are open at one time
	Tokens  int // of a row, its responses included
	Images  int // of a row
	Patches int // of an image
	Wanted  int // tokens of a row that the loss, or a score, is at; 0 is all of them
}

// MemoryPlan is an estimate of the memory that a workload takes at its peak, in
// bytes. Scoring, training and generating follow each other: Update ends all
// conversations.
type MemoryPlan struct {
	Weights     int64 // of policy, critic and reference
	Moments     int64 // of AdamW, two for every trained weight
	Gradients   int64
	Activations int64 // of one micro-batch: what is kept for the backward pass, and a block's own
	Logits      int64 // of HeadTokens tokens, with their gradients
	Caches      int64 // keys and values of conversations, old and grown side by side, copies of those that continue in other batches, and narrower copies of the weights that write them
	Program     int64 // code, the compiler, executables, gaps between buffers; 0 on accelerators
	Heap        int64 // Go's own memory, trajectories and pictures of the whole process among it, with the garbage that piles up; 0 on accelerators
}

// Peak is the most that is taken at one time.
func (p MemoryPlan) Peak() int64 {
	return p.Weights + p.Moments + p.Program + p.Heap + max(p.Caches, p.Gradients+p.Activations+p.Logits)
}

// String lists the parts behind the peak.
func (p MemoryPlan) String() string {
	return fmt.Sprintf("%s at the peak: weights %s, moments %s, program %s, heap %s, and the larger of caches %s and gradients %s with activations %s and logits %s",
		megabytes(p.Peak()), megabytes(p.Weights), megabytes(p.Moments), megabytes(p.Program), megabytes(p.Heap), megabytes(p.Caches),
		megabytes(p.Gradients), megabytes(p.Activations), megabytes(p.Logits))
}

// LogValue implements slog.LogValuer: megabytes.
func (p MemoryPlan) LogValue() slog.Value {
	mb := func(name string, n int64) slog.Attr { return slog.String(name, megabytes(n)) }
	return slog.GroupValue(mb("peak", p.Peak()), mb("weights", p.Weights), mb("moments", p.Moments), mb("gradients", p.Gradients),
		mb("activations", p.Activations), mb("logits", p.Logits), mb("caches", p.Caches), mb("program", p.Program), mb("heap", p.Heap))
}

// Plan estimates the memory of a workload. Work that has been done before does
// not count, but what program and heap take now is measured, to which a constant for
// the compiler is added: an estimate that is made before trajectories are there does
// not include them. For the small models that this package's tests train, a plan
// made before the first step is within a fifth of the process's peak.
func (m *Model) Plan(w Workload) (MemoryPlan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return MemoryPlan{}, ErrClosed
	}
	for _, f := range []struct {
		name         string
		value, least int
	}{{"Rows", w.Rows, 1}, {"Tokens", w.Tokens, 1}, {"Images", w.Images, 0}, {"Patches", w.Patches, 0}, {"Wanted", w.Wanted, 0}} {
		if f.value < f.least {
			return MemoryPlan{}, fmt.Errorf("vlm: plan: %s is %d, must be at least %d", f.name, f.value, f.least)
		}
	}
	return m.plan(w), nil
}

// The part of a plan that does not depend on the model: what the compiler and the
// compiled programs of XLA take, those that read and write and those that also
// learn, and what the pure-Go backend takes. Measured on a CPU with two cores; it
// comes on top of what the process has when the plan is made.
const (
	compilingReads = 104_000_000
	compilingAll   = 160_000_000
	interpreting   = 8_000_000
	// Arrays below 32 MB leave gaps between each other, of about a third of the
	// activations and at most this.
	mostGaps = 64_000_000
)

func (m *Model) plan(w Workload) MemoryPlan {
	now, next := usage.GoMemory()
	p := MemoryPlan{Program: max(0, usage.Resident()-m.dev.Resident()-now), Heap: next}
	layout := m.planLayout(w)
	if w.Train {
		p.Heap += max(2*m.pictures.growth(), m.pictureBytes(w, layout)) // half of it garbage
	}
	for _, l := range []*learner{m.actor, m.critic, m.ref} {
		if l != nil {
			p.Weights += l.weights.bytes()
		}
	}
	for _, a := range m.off {
		p.Weights += a.Bytes()
	}
	if w.Generate {
		p.Caches = m.cacheBytes(w) + m.narrowBytes()
	}
	switch {
	case w.Train:
		for _, l := range []*learner{m.actor, m.critic} {
			m.planUpdate(&p, l, layout)
		}
	case w.Score:
		p.Activations = layout.through(m.net)
		p.Logits = 4 * layout.logits(m.net.spec)
	}
	switch {
	case m.dev.Accelerator():
		p.Program, p.Heap = 0, 0
	case m.dev.PureGo():
		p.Program += interpreting
	case w.Train:
		p.Program += compilingAll + min(p.Activations/3, mostGaps)
	default:
		p.Program += compilingReads
	}
	return p
}

// pictureBytes is what the pictures of two rounds take in Go's memory, with as much
// in garbage, and those of a micro-batch as numbers.
func (m *Model) pictureBytes(w Workload, at planned) int64 {
	if m.net.vision == nil || w.Images == 0 {
		return 0
	}
	one := int64(w.Patches) * int64(m.cfg.Vision.PatchDim())
	kept := min(2*int64(w.Rows*w.Images)*one, learnedPictures)
	return 2*kept + 2*4*int64(at.images)*one
}

// bytes is what the tensors take on the device.
func (t *tensors) bytes() (sum int64) {
	if t == nil {
		return 0
	}
	for gi, g := range t.arrays {
		for i, a := range g {
			if !t.shares(gi, i) {
				sum += a.Bytes()
			}
		}
	}
	return sum
}

// planned is a micro-batch before its rows are there.
type planned struct {
	bins, length int
	patches      int // of one image
	images       int
	chunk        int
	several      bool // there are more micro-batches
}

func (m *Model) planLayout(w Workload) planned {
	k := m.packer(m.net)
	l := planned{length: bucket(w.Tokens), patches: w.Patches}
	full := k.perPack(l.length)
	l.bins = k.packSize(min(w.Rows, full), full, l.length, true)
	l.several = w.Rows > full
	if w.Images > 0 {
		l.images = imageBucket(min(w.Rows, full) * w.Images)
	}
	l.chunk = m.opts.HeadTokens
	if !l.several {
		wanted := w.Tokens
		if w.Wanted > 0 {
			wanted = w.Wanted
		}
		l.chunk = min(l.chunk, sizeClass(w.Rows*wanted, 32))
	}
	return l
}

// planUpdate adds the optimiser step of a learner; nil has none. Steps of policy
// and critic follow each other.
func (m *Model) planUpdate(p *MemoryPlan, l *learner, at planned) {
	if l == nil {
		return
	}
	const float = 4
	var trained, largest int64
	for _, g := range trainedGroups(l.weights.groups) {
		trained += float * int64(g.Size())
		largest = max(largest, float*int64(g.Size()))
	}
	p.Moments += 2 * trained
	activations, logits := at.kept(l.net), 4*at.logits(l.net.spec)
	// While the first micro-batch goes back, its activations make room for
	// gradients; with the next one, all gradients wait beside it. In the end, where
	// arrays are not written over, the largest group is there twice, with its moments.
	gradients := int64(0)
	if at.several {
		gradients = trained
	}
	end := trained
	if m.dev.PureGo() {
		end += 3 * largest
	}
	if end > gradients+activations+logits+2*largest {
		gradients, activations, logits = end, 0, 0
	} else {
		gradients += 2 * largest
	}
	if gradients+activations+logits > p.Gradients+p.Activations+p.Logits {
		p.Gradients, p.Activations, p.Logits = gradients, activations, logits
	}
}

// logits is the size of the logits of a chunk.
func (l planned) logits(spec *model.Config) int64 {
	if spec.Critic {
		return 0
	}
	return 4 * int64(l.chunk) * int64(spec.Text.Vocab)
}

// kept is what a training forward pass keeps, and what one block works with.
func (l planned) kept(n *net) int64 {
	keep := func(b *model.Block, depth, tokens, groups, length int) int64 {
		inner, probs := blockFloats(b, tokens, groups, length)
		all := int64(tokens) * int64(b.Hidden) * int64(depth)
		if n.keep != keepInputs {
			all += inner * int64(depth)
		}
		if n.keep == keepAll {
			all += probs * int64(depth)
		}
		return all
	}
	inner, probs := blockFloats(n.text, l.bins*l.length, l.bins, l.length)
	sum := l.bytesOf(n, keep(n.text, n.cfg.Text.Layers, l.bins*l.length, l.bins, l.length)+inner+2*probs)
	if l.images == 0 || n.vision == nil {
		return sum
	}
	if !n.reach.vision {
		return max(sum, l.see(n)) // which is over before the decoder begins
	}
	v := n.cfg.Vision
	full := 0
	for i := range v.Depth {
		if v.Full(i) {
			full++
		}
	}
	patches := l.images * l.patches
	tower := keep(n.vision, full, patches, l.images, l.patches)
	if full < v.Depth {
		side := v.WindowCells() * v.Merge
		window := max(1, min(l.patches, side*side))
		tower += keep(n.vision, v.Depth-full, patches, patches/window, window)
	}
	return sum + l.bytesOf(n, tower)
}

// through is what a forward pass without training works with.
func (l planned) through(n *net) int64 {
	inner, probs := blockFloats(n.text, l.bins*l.length, l.bins, l.length)
	return max(l.bytesOf(n, inner+2*probs), l.see(n))
}

// see is what the vision tower works with.
func (l planned) see(n *net) int64 {
	if l.images == 0 || n.vision == nil {
		return 0
	}
	inner, probs := blockFloats(n.vision, l.images*l.patches, l.images, l.patches)
	return l.bytesOf(n, inner+2*probs)
}

func (l planned) bytesOf(n *net, floats int64) int64 { return floats * int64(n.compute.Size()) }

// blockFloats counts what a block computes on its way: queries, keys, values,
// attention, its sum with the input and the feed-forward part; and, apart, the
// attention's probabilities.
func blockFloats(b *model.Block, tokens, groups, length int) (inner, probs int64) {
	up := 2 * b.FF
	if b.GELU {
		up = b.FF
	}
	inner = int64(tokens) * int64((2*b.Heads+2*b.KVHeads)*b.HeadDim+b.Hidden+up)
	return inner, int64(groups) * int64(b.Heads) * int64(length) * int64(length)
}

// cacheBytes is what conversations take, and what reading a prompt works with.
func (m *Model) cacheBytes(w Workload) int64 {
	rows := rowBucket(min(w.Rows, m.opts.MaxRows))
	inner, probs := blockFloats(m.net.text, rows*w.Tokens, rows, w.Tokens)
	l := planned{images: min(rows, w.Rows) * w.Images, patches: w.Patches}
	return l.bytesOf(m.net, m.cacheFloats(w)+inner+2*probs) + 4*int64(rows)*int64(m.cfg.Text.Vocab) + l.see(m.net)
}

// cacheFloats counts the keys and values of conversations. Besides those of all
// batches there are, at one time, those of the largest as they were before they
// grew, and those of rows that continue in another batch: the rest of one batch, at
// most half of it, or of several, as many rows as a batch has.
func (m *Model) cacheFloats(w Workload) int64 {
	t := &m.cfg.Text
	slots := cacheLength(max(w.Tokens, m.opts.CacheTokens)) + 32
	of := func(rows int) int64 { return 2 * int64(rows) * int64(slots) * int64(t.KVHeads*t.HeadDim*t.Layers) }
	var sum int64
	for left := w.Rows; left > 0; left -= m.opts.MaxRows {
		sum += of(rowBucket(min(left, m.opts.MaxRows)))
	}
	most := rowBucket(min(w.Rows, m.opts.MaxRows))
	if w.Rows > m.opts.MaxRows {
		return sum + 2*of(most)
	}
	return sum + of(most) + of(most/2)
}

// logPlan tells what the first optimiser step will take, and warns where that is
// more than the process may have. What an accelerator has is not looked at.
func (m *Model) logPlan(b *policy.Batch) {
	if m.planned {
		return
	}
	m.planned = true
	w := Workload{Train: true, Rows: max(1, b.Len()), Tokens: 1}
	patches, images, wanted := 0, 0, 0
	for _, want := range marks(len(b.Tokens), b.Weight, b.ValueWeight) {
		if want {
			wanted++
		}
	}
	w.Wanted = (wanted + w.Rows - 1) / w.Rows
	for i := range b.Len() {
		w.Tokens = max(w.Tokens, b.Offsets[i+1]-b.Offsets[i])
		if b.Images == nil {
			continue
		}
		w.Images = max(w.Images, len(b.Images[i]))
		for _, im := range b.Images[i] {
			if pic, err := m.picture(im); err == nil {
				images, patches = images+1, patches+pic.grid.h*pic.grid.w
			}
		}
	}
	w.Patches = patches / max(1, images)
	p := m.plan(w)
	m.opts.Log.Info("memory plan of a training step", "rows", w.Rows, "tokens", w.Tokens, "plan", p)
	if limit, says := m.limit(); limit > 0 && p.Peak() > limit && !m.dev.Accelerator() {
		m.opts.Log.Warn("a training step is planned to take more memory than there is; MicroTokens, Recompute and LoRA make it smaller",
			"plan", megabytes(p.Peak()), "limit", megabytes(limit), "says", says)
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.0fMB", float64(n)/1e6) }
