// Package plan says what work needs before it begins: memory, least reads, writes and operations of a step, and the
// speeds of the machine.
package plan

import (
	"fmt"
	"log/slog"

	"vagen/internal/usage"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Workload describes the work for which a MemoryPlan is made. All rows have the same
// length.
type Workload struct {
	Generate bool // generate responses
	Score    bool // compute log-probs or values
	Train    bool // take optimiser steps

	Rows    int // of a batch, or conversations open at the same time
	Played  int // conversations open at the same time where they are more than Rows, as in a validation
	Tokens  int // per row, responses included
	Images  int // per row
	Patches int // per image
	Wanted  int // tokens per row with a loss or a score; 0 is all of them

	// ReadTokens and ReadImages are what a prompt adds to a conversation at most, per row.
	// ReadTokens 0 means that whole rows are read at once. OpenTokens are those of a prompt that opens a conversation
	// and has nothing before it; 0 is ReadTokens.
	ReadTokens, ReadImages, OpenTokens int

	// Snapshots is the number of copies of the policy (SnapshotPolicy) that generate Rows
	// conversations each during all other work.
	Snapshots int

	// Compared are the tokens whose log-probs the loss compares with a teacher's at every token of the rows, and
	// UpdateRows the rows of an optimiser step; 0 is all.
	Compared   loss.Choice
	UpdateRows int

	Hint int // tokens that a second score of the rows has in front of each of them; 0 is no second score
}

// MemoryPlan is an estimate of the peak memory of a workload in bytes: of the process, with
// all of its devices, or of each accelerator. The model's own generation and
// training do not overlap, because Update ends all conversations; those of copies of the
// policy overlap with everything.
type Memory struct {
	Weights     int64 // of policy, critic and reference
	Moments     int64 // of AdamW, two for every trained weight
	Gradients   int64
	Activations int64 // of one micro-batch: those kept for the backward pass, and those inside one block
	Logits      int64 // of HeadTokens tokens, with their gradients
	// Training is what a training step adds to Program: its compiler's memory, and the gaps between its arrays in the C
	// library's heap; 0 on accelerators.
	Training int64
	// Caches are those of conversations, with the copies that exist while a cache grows or rows move to another batch,
	// or what reading a prompt takes, and the copies of weights in a narrower type.
	Caches int64
	// Snapshots are the trained weights of copies of the policy, and their Caches.
	Snapshots int64
	Program   int64 // code, compiler, executables; 0 on accelerators
	// Heap is the Go memory of the whole process, with trajectories, images and garbage;
	// 0 on accelerators.
	Heap     int64
	Compared int64 // Go memory of Workload.Compared; on accelerators not part of the peak, which is theirs
	apart    bool  // it is not
}

// Host returns what the process needs: the peak, or on accelerators Compared: nothing else grows with the work.
func (p Memory) Host() int64 {
	if p.apart {
		return p.Compared
	}
	return p.Peak()
}

// Peak returns the largest amount of memory in use at one time.
func (p Memory) Peak() int64 {
	compared := p.Compared
	if p.apart {
		compared = 0
	}
	return p.Weights + p.Snapshots + p.Moments + p.Program + p.Heap + compared +
		max(p.Caches, p.Gradients+p.Activations+p.Logits+p.Training)
}

// String returns the peak and its parts in megabytes.
func (p Memory) String() string {
	return fmt.Sprintf("%s at the peak: weights %s, snapshots %s, moments %s, program %s, heap %s, "+
		"compared log-probs %s, and the larger of caches %s and gradients %s with activations %s, logits %s "+
		"and %s for training",
		Megabytes(p.Peak()), Megabytes(p.Weights), Megabytes(p.Snapshots), Megabytes(p.Moments), Megabytes(p.Program),
		Megabytes(p.Heap), Megabytes(p.Compared), Megabytes(p.Caches), Megabytes(p.Gradients), Megabytes(p.Activations),
		Megabytes(p.Logits), Megabytes(p.Training))
}

var _ slog.LogValuer = Memory{}

// LogValue implements slog.LogValuer: megabytes.
func (p Memory) LogValue() slog.Value {
	mb := func(name string, n int64) slog.Attr { return slog.String(name, Megabytes(n)) }
	return slog.GroupValue(mb("peak", p.Peak()), mb("weights", p.Weights), mb("snapshots", p.Snapshots),
		mb("moments", p.Moments), mb("gradients", p.Gradients), mb("activations", p.Activations), mb("logits", p.Logits),
		mb("training", p.Training), mb("caches", p.Caches), mb("program", p.Program), mb("heap", p.Heap),
		mb("compared", p.Compared))
}

func Megabytes(n int64) string { return fmt.Sprintf("%.0fMB", float64(n)/1e6) }

// Setup is what the memory of a workload depends on besides it: the model, how it was opened, and what is in memory.
type Setup struct {
	Net         *net.Net    // of the policy
	Packer      *net.Packer // of its micro-batches
	HeadTokens  int         // of a chunk of logits
	MaxRows     int         // of a batch of conversations
	CacheTokens int         // for which a cache has room at first
	Continuous  bool        // rows decode in a batch beside the caches of their conversations
	Parts       int         // into which work is divided; 0 if it is not
	Devices     int
	Nodes       int
	Sharded     bool // weights are divided over the devices
	Sets        []Set

	Resident int64 // memory of the devices in the process
	Zeros    int64 // of the reference's adapters
	Narrow   int64 // of copies of weights for generation
	Pictures int64 // by which processed pictures will grow
}

// Set is a set of weights: of the policy, the critic or the reference.
type Set struct {
	Net     *net.Net
	Held    int64                              // on the devices now
	OnHost  int64                              // in host memory between calls
	Moments func(trained, largest int64) int64 // see learner.momentBytes; nil for weights that are not trained
}

// Bytes that do not depend on the model: XLA's compiler and compiled programs, without
// and with those for training, and the pure-Go backend. They were measured on a CPU with
// two cores and are added to the process's present use.
const (
	compilerForward  = 104_000_000
	compilerStart    = 65_000_000 // of these, what the first compilation takes
	compilerTraining = 130_000_000
	pureGoRuntime    = 8_000_000
	// maxGaps limits the gaps between arrays below 32 MB, which are about a third of the
	// activations, on each device: devices allocate at the same time, in different parts of the
	// C library's heap, which do not use each other's gaps.
	maxGaps = 64_000_000
)

// Memory estimates the memory of a workload.
func (s *Setup) Memory(w Workload) Memory {
	now, next := usage.GoMemory()
	p := Memory{Program: max(0, usage.Resident()-s.Resident-now), Heap: next, Weights: s.Zeros}
	part := s.plannedPart(w)
	layout := s.planLayout(part)
	if w.Train {
		p.Heap += usage.WithGarbage(max(s.Pictures, s.pictureBytes(w, layout)))
	}
	p.Compared, p.apart = s.comparedBytes(w), s.Net.Dev.Accelerator()
	for _, set := range s.Sets {
		p.Weights += set.Held
		if w.Score || w.Train && set.Moments != nil {
			p.Weights += set.OnHost
		}
	}
	if w.Generate || w.Snapshots > 0 {
		p.Caches = s.cacheBytes(part) + s.Narrow
	}
	switch {
	case w.Train:
		for _, set := range s.Sets {
			s.planUpdate(&p, &set, layout)
		}
	case w.Score:
		p.Activations = layout.forwardBytes(s.Net)
		if !s.scoresByKernel(w, layout) {
			p.Logits = 4 * layout.logitBytes(s.Net.Spec)
		}
	}
	if w.Hint > 0 {
		s.planHinted(&p, w)
	}
	s.planDevices(&p, part)
	p.Snapshots = int64(w.Snapshots) * (s.CopiedBytes() + p.Caches)
	if !w.Generate {
		p.Caches = 0
	} else if w.Played > w.Rows {
		w.Rows, w.Played, w.Score, w.Train, w.Snapshots, w.Hint = w.Played, 0, false, false, 0, 0
		p.Caches = max(p.Caches, s.Memory(w).Caches)
	}
	switch {
	case s.Net.Dev.Accelerator():
		p.Program, p.Heap = 0, 0
	case s.Net.Dev.PureGo():
		p.Program += pureGoRuntime
	default:
		forward := int64(compilerForward)
		if s.Net.Dev.Compiled() {
			forward -= compilerStart
		}
		p.Program += forward
		if w.Train {
			p.Training = compilerTraining - forward + s.plannedGaps(p.Activations) + s.Net.Cfg.CompilerBytes()
		}
	}
	return p
}

// microBatchPlan is the expected layout of a micro-batch.
type microBatchPlan struct {
	bins, length int
	patches      int // of one image
	images       int
	chunk        int
	several      bool // there are more micro-batches
}

func (s *Setup) planLayout(w Workload) microBatchPlan {
	k := s.Packer
	l := microBatchPlan{length: k.Longest(net.Bucket(w.Tokens)), patches: w.Patches}
	full := k.PerPack(l.length)
	l.bins = k.PackSize(min(w.Rows, full), full, l.length, true)
	l.several = w.Rows > full
	if w.Images > 0 && s.Net.Vision != nil {
		images := min(w.Rows, full) * w.Images
		if k.Share { // those behind a common prompt
			fit := k.Budget / max(1, net.Grid{H: 1, W: w.Patches}.Tokens(k.Cfg.Vision.Merge))
			images = max(images, min(w.Rows*w.Images, fit))
		}
		l.images = net.ImageBucket(images)
	}
	l.chunk = s.HeadTokens
	if !l.several {
		wanted := w.Tokens
		if w.Wanted > 0 {
			wanted = w.Wanted
		}
		l.chunk = min(l.chunk, net.SizeClass(w.Rows*wanted, 32))
	}
	return l
}

// planUpdate adds the memory of an optimiser step. Steps of policy and critic do
// not overlap, so the larger one counts.
func (s *Setup) planUpdate(p *Memory, set *Set, at microBatchPlan) {
	if set.Moments == nil {
		return
	}
	const float = 4
	var trained, largest int64
	for _, g := range net.TrainedGroups(set.Net.Groups.All()) {
		trained += float * int64(g.Size())
		largest = max(largest, float*int64(g.Size()))
	}
	p.Moments += set.Moments(trained, largest)
	activations, logits := at.trainingBytes(set.Net), 4*at.logitBytes(set.Net.Spec)
	// In the backward pass of the first micro-batch, gradients replace activations; during
	// the next ones, all gradients are in memory. In the optimiser step, if arrays are not
	// updated in place, the largest group and its moments are in memory twice.
	gradients := int64(0)
	if at.several {
		gradients = trained
	}
	end := trained
	if s.Net.Dev.PureGo() {
		end += 3 * largest
	}
	if end > gradients+activations+logits+2*largest {
		gradients, activations, logits = end, 0, 0
	} else {
		gradients += 2 * largest
	}
	gradients += s.heldSums() * trained
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
func (l microBatchPlan) trainingBytes(n *net.Net) int64 {
	keep := func(b model.Layer, hidden, tokens, groups, length int) int64 {
		main, again := b.Floats(tokens, groups, length)
		all := int64(tokens) * int64(hidden)
		if n.Keep != net.KeepInputs {
			all += main
		}
		if n.Keep == net.KeepAll {
			all += again
		}
		return all
	}
	floats := InsideLayer(n.Layers, l.bins*l.length, l.bins, l.length)
	for _, b := range n.Layers {
		floats += keep(b, n.Cfg.Text.Hidden, l.bins*l.length, l.bins, l.length)
	}
	sum := l.bytesOf(n, floats)
	if l.images == 0 {
		return sum
	}
	if !n.Reach.Vision {
		return max(sum, l.visionBytes(n)) // the tower's activations are freed before the decoder runs
	}
	v := n.Cfg.Vision
	side := v.WindowCells() * v.Merge
	window := max(1, min(l.patches, side*side))
	patches, tower := l.images*l.patches, int64(0)
	for i := range v.Depth {
		if v.Full(i) {
			tower += keep(n.Vision, v.Hidden, patches, l.images, l.patches)
		} else {
			tower += keep(n.Vision, v.Hidden, patches, patches/window, window)
		}
	}
	return sum + l.bytesOf(n, tower)
}

// forwardBytes is the size of the activations of a forward pass without training.
func (l microBatchPlan) forwardBytes(n *net.Net) int64 {
	return max(l.bytesOf(n, insideForward(n, n.Layers, l.bins*l.length, l.bins, l.length)), l.visionBytes(n))
}

// visionBytes is the size of the activations inside one block of the vision tower.
func (l microBatchPlan) visionBytes(n *net.Net) int64 {
	if l.images == 0 || n.Vision == nil {
		return 0
	}
	return l.bytesOf(n, insideForward(n, []model.Layer{n.Vision}, l.images*l.patches, l.images, l.patches))
}

// insideForward is InsideLayer where nothing is kept for a backward pass: kernels store what attention may read, in
// bytes, instead of its probabilities.
func insideForward(n *net.Net, layers []model.Layer, tokens, groups, length int) (most int64) {
	if !byKernels(n) {
		return InsideLayer(layers, tokens, groups, length)
	}
	for _, b := range layers {
		main, _ := b.Floats(tokens, groups, length)
		most = max(most, main+int64(groups)*int64(length)*int64(length)/4)
	}
	return most
}

// InsideLayer counts the activations inside the largest of the layers: attention probabilities are
// there twice.
func InsideLayer(layers []model.Layer, tokens, groups, length int) (most int64) {
	for _, b := range layers {
		main, again := b.Floats(tokens, groups, length)
		most = max(most, main+2*again)
	}
	return most
}

func (l microBatchPlan) bytesOf(n *net.Net, floats int64) int64 {
	return floats * int64(n.Compute.Size())
}
