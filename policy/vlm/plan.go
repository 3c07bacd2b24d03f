package vlm

import (
	"fmt"
	"log/slog"

	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// Workload describes the work for which a MemoryPlan is made. All rows have the same
// length.
type Workload struct {
	Generate bool // generate responses
	Score    bool // compute log-probs or values
	Train    bool // take optimiser steps

	Rows    int // of a batch, or conversations open at the same time
	Tokens  int // per row, responses included
	Images  int // per row
	Patches int // per image
	Wanted  int // tokens per row with a loss or a score; 0 is all of them

	// Snapshots is the number of copies of the policy (SnapshotPolicy) that generate Rows
	// conversations each during all other work.
	Snapshots int
}

// MemoryPlan is an estimate of the peak memory of a workload in bytes: of the process, with
// all of its devices, or of each accelerator. The model's own generation and
// training do not overlap, because Update ends all conversations; those of copies of the
// policy overlap with everything.
type MemoryPlan struct {
	Weights     int64 // of policy, critic and reference
	Moments     int64 // of AdamW, two for every trained weight
	Gradients   int64
	Activations int64 // of one micro-batch: those kept for the backward pass, and those inside one block
	Logits      int64 // of HeadTokens tokens, with their gradients
	// Caches are those of conversations, with the copies that exist while a
	// cache grows or rows move to another batch, and the copies of weights in a narrower
	// type.
	Caches int64
	// Snapshots are the trained weights of copies of the policy, and their Caches.
	Snapshots int64
	Program   int64 // code, compiler, executables, gaps between buffers; 0 on accelerators
	// Heap is the Go memory of the whole process, with trajectories, images and garbage;
	// 0 on accelerators.
	Heap int64
}

// Peak returns the largest amount of memory in use at one time.
func (p MemoryPlan) Peak() int64 {
	return p.Weights + p.Snapshots + p.Moments + p.Program + p.Heap + max(p.Caches, p.Gradients+p.Activations+p.Logits)
}

// String returns the peak and its parts in megabytes.
func (p MemoryPlan) String() string {
	return fmt.Sprintf("%s at the peak: weights %s, snapshots %s, moments %s, program %s, heap %s, and the larger of caches %s and gradients %s with activations %s and logits %s",
		megabytes(p.Peak()), megabytes(p.Weights), megabytes(p.Snapshots), megabytes(p.Moments), megabytes(p.Program), megabytes(p.Heap), megabytes(p.Caches),
		megabytes(p.Gradients), megabytes(p.Activations), megabytes(p.Logits))
}

var _ slog.LogValuer = MemoryPlan{}

// LogValue implements slog.LogValuer: megabytes.
func (p MemoryPlan) LogValue() slog.Value {
	mb := func(name string, n int64) slog.Attr { return slog.String(name, megabytes(n)) }
	return slog.GroupValue(mb("peak", p.Peak()), mb("weights", p.Weights), mb("snapshots", p.Snapshots), mb("moments", p.Moments), mb("gradients", p.Gradients),
		mb("activations", p.Activations), mb("logits", p.Logits), mb("caches", p.Caches), mb("program", p.Program), mb("heap", p.Heap))
}

// Plan estimates the memory of a workload. Program and Heap start from the process's
// present use, so trajectories that do not exist yet are not included; a constant is
// added for the compiler. A plan that exceeds the limit of the process is logged as a warning,
// except on an accelerator, whose memory is not checked. For the small models that this package's tests train, a plan
// made before the first step is within a fifth of the process's measured peak.
func (m *Model) Plan(w Workload) (MemoryPlan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return MemoryPlan{}, ErrClosed
	}
	for _, f := range []struct {
		name         string
		value, least int
	}{{"Rows", w.Rows, 1}, {"Tokens", w.Tokens, 1}, {"Images", w.Images, 0}, {"Patches", w.Patches, 0}, {"Wanted", w.Wanted, 0}, {"Snapshots", w.Snapshots, 0}} {
		if f.value < f.least {
			return MemoryPlan{}, fmt.Errorf("vlm: plan: %s is %d, must be at least %d", f.name, f.value, f.least)
		}
	}
	p := m.plan(w)
	m.warnMemory("the planned work", p)
	return p, nil
}

// Bytes that do not depend on the model: XLA's compiler and compiled programs, without
// and with those for training, and the pure-Go backend. They were measured on a CPU with
// two cores and are added to the process's present use.
const (
	compilerForward  = 104_000_000
	compilerTraining = 160_000_000
	pureGoRuntime    = 8_000_000
	// maxGaps limits the gaps between arrays below 32 MB, which are about a third of the
	// activations, on each device: devices allocate at the same time, in different parts of the
	// C library's heap, which do not use each other's gaps.
	maxGaps = 64_000_000
)

func (m *Model) plan(w Workload) MemoryPlan {
	now, next := usage.GoMemory()
	var resident int64
	for _, d := range m.devices {
		resident += d.Resident()
	}
	p := MemoryPlan{Program: max(0, usage.Resident()-resident-now), Heap: next}
	part := m.plannedPart(w)
	layout := m.planLayout(part)
	if w.Train {
		p.Heap += max(2*m.pictures.growth(), m.pictureBytes(w, layout)) // half of it garbage
	}
	for _, l := range []*learner{m.actor, m.critic, m.ref} {
		if l != nil {
			p.Weights += l.weights.bytes()
		}
	}
	if w.Score {
		p.Weights += m.ref.parkedBytes()
	}
	if w.Score || w.Train {
		p.Weights += m.critic.parkedBytes()
	}
	for _, a := range m.zeroAdapters {
		p.Weights += a.Bytes()
	}
	if w.Generate || w.Snapshots > 0 {
		p.Caches = m.cacheBytes(part) + m.narrowBytes()
	}
	switch {
	case w.Train:
		for _, l := range []*learner{m.actor, m.critic} {
			m.planUpdate(&p, l, layout)
		}
	case w.Score:
		p.Activations = layout.forwardBytes(m.net)
		p.Logits = 4 * layout.logitBytes(m.net.spec)
	}
	m.planDevices(&p, part)
	p.Snapshots = int64(w.Snapshots) * (m.copiedBytes() + p.Caches)
	if !w.Generate {
		p.Caches = 0
	}
	switch {
	case m.dev.Accelerator():
		p.Program, p.Heap = 0, 0
	case m.dev.PureGo():
		p.Program += pureGoRuntime
	case w.Train:
		p.Program += compilerTraining + m.plannedGaps(p.Activations)
	default:
		p.Program += compilerForward
	}
	return p
}

// bytes is the size of the tensors on the device, without shared arrays.
func (t *tensors) bytes() (sum int64) {
	if t == nil {
		return 0
	}
	for gi, g := range t.arrays {
		for i, a := range g {
			if a != nil && !t.shares(gi, i) {
				sum += a.Bytes()
			}
		}
	}
	return sum
}

// microBatchPlan is the expected layout of a micro-batch.
type microBatchPlan struct {
	bins, length int
	patches      int // of one image
	images       int
	chunk        int
	several      bool // there are more micro-batches
}

func (m *Model) planLayout(w Workload) microBatchPlan {
	k := m.packer(m.net)
	l := microBatchPlan{length: bucket(w.Tokens), patches: w.Patches}
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

// planUpdate adds the memory of a learner's optimiser step. Steps of policy and critic do
// not overlap, so the larger one counts. l may be nil.
func (m *Model) planUpdate(p *MemoryPlan, l *learner, at microBatchPlan) {
	if l == nil {
		return
	}
	const float = 4
	var trained, largest int64
	for _, g := range trainedGroups(l.weights.groups) {
		trained += float * int64(g.Size())
		largest = max(largest, float*int64(g.Size()))
	}
	p.Moments += l.momentBytes(trained, largest)
	activations, logits := at.trainingBytes(l.net), 4*at.logitBytes(l.net.spec)
	// In the backward pass of the first micro-batch, gradients replace activations; during
	// the next ones, all gradients are in memory. In the optimiser step, if arrays are not
	// updated in place, the largest group and its moments are in memory twice.
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
	gradients += m.heldSums() * trained
	if gradients+activations+logits > p.Gradients+p.Activations+p.Logits {
		p.Gradients, p.Activations, p.Logits = gradients, activations, logits
	}
}

// logitBytes is the size of the logits of a chunk.
func (l microBatchPlan) logitBytes(spec *model.Config) int64 {
	if spec.Critic {
		return 0
	}
	return 4 * int64(l.chunk) * int64(spec.Text.Vocab)
}

// trainingBytes is the size of the activations that a training forward pass keeps, and of
// those inside one block.
func (l microBatchPlan) trainingBytes(n *net) int64 {
	keep := func(b model.Layer, hidden, tokens, groups, length int) int64 {
		main, again := b.Floats(tokens, groups, length)
		all := int64(tokens) * int64(hidden)
		if n.keep != keepInputs {
			all += main
		}
		if n.keep == keepAll {
			all += again
		}
		return all
	}
	floats := insideLayer(n.layers, l.bins*l.length, l.bins, l.length)
	for _, b := range n.layers {
		floats += keep(b, n.cfg.Text.Hidden, l.bins*l.length, l.bins, l.length)
	}
	sum := l.bytesOf(n, floats)
	if l.images == 0 || n.vision == nil {
		return sum
	}
	if !n.reach.vision {
		return max(sum, l.visionBytes(n)) // the tower's activations are freed before the decoder runs
	}
	v := n.cfg.Vision
	side := v.WindowCells() * v.Merge
	window := max(1, min(l.patches, side*side))
	patches, tower := l.images*l.patches, int64(0)
	for i := range v.Depth {
		if v.Full(i) {
			tower += keep(n.vision, v.Hidden, patches, l.images, l.patches)
		} else {
			tower += keep(n.vision, v.Hidden, patches, patches/window, window)
		}
	}
	return sum + l.bytesOf(n, tower)
}

// forwardBytes is the size of the activations of a forward pass without training.
func (l microBatchPlan) forwardBytes(n *net) int64 {
	return max(l.bytesOf(n, insideLayer(n.layers, l.bins*l.length, l.bins, l.length)), l.visionBytes(n))
}

// visionBytes is the size of the activations inside one block of the vision tower.
func (l microBatchPlan) visionBytes(n *net) int64 {
	if l.images == 0 || n.vision == nil {
		return 0
	}
	return l.bytesOf(n, insideLayer([]model.Layer{n.vision}, l.images*l.patches, l.images, l.patches))
}

// insideLayer counts the activations inside the largest of the layers: attention probabilities are
// there twice.
func insideLayer(layers []model.Layer, tokens, groups, length int) (most int64) {
	for _, b := range layers {
		main, again := b.Floats(tokens, groups, length)
		most = max(most, main+2*again)
	}
	return most
}

func (l microBatchPlan) bytesOf(n *net, floats int64) int64 { return floats * int64(n.compute.Size()) }

// cacheBytes is the size of the caches of conversations, and of the activations for
// reading a prompt.
func (m *Model) cacheBytes(w Workload) int64 {
	rows := rowBucket(min(w.Rows, m.opts.MaxRows))
	inside := insideLayer(m.net.layers, rows*w.Tokens, rows, w.Tokens)
	l := microBatchPlan{images: min(rows, w.Rows) * w.Images, patches: w.Patches}
	return m.allCaches(w) + l.bytesOf(m.net, inside) + 4*int64(rows)*int64(m.cfg.Text.Vocab) + l.visionBytes(m.net)
}

// allCaches is the size of the caches of conversations: those of all batches, those of
// the largest batch again while its cache grows, and the copies of rows that continue in
// another batch. These are at most half a batch if there is one batch, a whole batch if
// there are several.
func (m *Model) allCaches(w Workload) int64 {
	of := func(rows int) int64 { return m.batchCache(w, rows) }
	sum := m.keptCaches(w)
	most := rowBucket(min(w.Rows, m.opts.MaxRows))
	if w.Rows > m.opts.MaxRows {
		return sum + 2*of(most)
	}
	return sum + of(most) + of(most/2)
}

// keptCaches is the size of the caches of the conversations' batches.
func (m *Model) keptCaches(w Workload) (sum int64) {
	for left := w.Rows; left > 0; left -= m.opts.MaxRows {
		sum += m.batchCache(w, rowBucket(min(left, m.opts.MaxRows)))
	}
	return sum
}

// batchCache is the size of the cache of a batch of rows.
func (m *Model) batchCache(w Workload, rows int) int64 {
	slots := cacheLength(max(w.Tokens, m.opts.CacheTokens)) + 32
	return int64(rows) * m.cfg.CacheBytes(slots, m.net.compute)
}

// logPlan logs the memory plan of the first optimiser step.
func (m *Model) logPlan(b *policy.Batch) {
	if m.planned {
		return
	}
	m.planned = true
	w := Workload{Train: true, Rows: max(1, b.Len()), Tokens: 1}
	patches, images, wanted := 0, 0, 0
	for _, want := range nonZero(len(b.Tokens), b.Weight, b.ValueWeight) {
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
	m.warnMemory("a training step", p)
}

// warnMemory logs a warning if a plan exceeds the limit of the process.
func (m *Model) warnMemory(what string, p MemoryPlan) {
	if limit, says := m.memoryLimit(); limit > 0 && p.Peak() > limit && !m.dev.Accelerator() {
		m.opts.Log.Warn(what+" may need more memory than available; MicroTokens, Recompute and LoRA reduce it",
			"plan", megabytes(p.Peak()), "limit", megabytes(limit), "says", says)
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.0fMB", float64(n)/1e6) }
