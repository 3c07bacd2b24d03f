package plan

import (
	"math/bits"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/net"
)

// plannedPart returns the part of a workload that is computed at once on one device.
func (s *Setup) plannedPart(w Workload) Workload {
	if s.Parts > 0 {
		w.Rows = (w.Rows + s.Parts - 1) / s.Parts
	}
	return w
}

// heldSums is the number of gradient sums that a device holds while it computes its last
// leaf.
func (s *Setup) heldSums() int64 {
	if s.Parts == 0 {
		return 0
	}
	return int64(bits.Len(uint(s.Parts/(s.Devices*s.Nodes))) - 1)
}

// CopiedBytes is the size of the weights that a policySnapshot copies, on all devices of a
// process or on one accelerator.
func (s *Setup) CopiedBytes() (sum int64) {
	for _, g := range net.TrainedGroups(s.Net.Groups.All()) {
		sum += 4 * int64(g.Size())
	}
	switch n := int64(max(1, s.Devices)); {
	case s.Sharded && s.Net.Dev.Accelerator():
		return sum / n
	case s.Parts > 0 && !s.Sharded && !s.Net.Dev.Accelerator():
		return sum * n
	}
	return sum
}

// planDevices extends the plan of one leaf, for the part w of the work, to the process or to
// an accelerator. On a CPU, the memory of all devices is that of the process.
func (s *Setup) planDevices(p *Memory, w Workload) {
	if s.Parts == 0 {
		return
	}
	n := int64(s.Devices)
	if p.Caches > 0 { // conversations of the device's other leaves
		kept := s.keptCaches(w)
		p.Caches += (int64(s.Parts)/n - 1) * kept
	}
	if s.Net.Dev.Accelerator() {
		p.Moments /= n
		if s.Sharded {
			p.Weights = p.Weights/n + s.largestGroup()
		}
		return
	}
	if s.Sharded {
		p.Weights += n * s.largestGroup()
	} else {
		p.Weights *= n
	}
	p.Caches *= n
	p.Gradients *= n
	p.Activations *= n
	p.Logits *= n
}

// plannedGaps is the size of the gaps that arrays of a training step leave in the memory of a CPU's process,
// for the activations of all of its devices.
func (s *Setup) plannedGaps(activations int64) int64 {
	return min(activations/3, int64(s.Devices)*maxGaps)
}

// largestGroup is the size of the weights that are copied to a device at the same time.
func (s *Setup) largestGroup() (most int64) {
	for _, set := range s.Sets {
		for _, g := range set.Net.Groups.All() {
			most = max(most, 4*int64(g.Size()))
		}
	}
	return most
}

// pictureBytes is the Go memory for the images of two rounds and for those of a micro-batch.
func (s *Setup) pictureBytes(w Workload, at microBatchPlan) int64 {
	if s.Net.Vision == nil || w.Images == 0 {
		return 0
	}
	one := int64(w.Patches) * int64(s.Net.Cfg.Vision.PatchDim())
	kept := min(2*int64(w.Rows*w.Images)*one, generate.LearnedPictures)
	return kept + int64(at.images)*one
}

// scoresByKernel reports whether log-probs are computed without the logits in memory: by kernels, but for those of
// several tokens at each position.
func (s *Setup) scoresByKernel(w Workload, at microBatchPlan) bool {
	return byKernels(s.Net) && at.chunk >= fused.ScoreRows && w.Compared.By == ""
}

// byKernels reports whether kernels compute attention and the head: on XLA's CPU in float32.
func byKernels(n *net.Net) bool {
	return fused.Registered() && !n.Dev.PureGo() && !n.Dev.Accelerator() && n.Compute == dtypes.Float32
}
