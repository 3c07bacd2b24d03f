package vlm

import (
	"math/bits"
)

// plannedPart returns the part of a workload that is computed at once on one device.
func (m *Model) plannedPart(w Workload) Workload {
	if m.tree {
		w.Rows = (w.Rows + m.leaves - 1) / m.leaves
	}
	return w
}

// heldSums is the number of gradient sums that a device holds while it computes its last
// leaf.
func (m *Model) heldSums() int64 {
	if !m.tree {
		return 0
	}
	return int64(bits.Len(uint(m.leaves/(len(m.devices)*m.opts.Nodes.Count))) - 1)
}

// copiedBytes is the size of the weights that a policySnapshot copies, on all devices of a
// process or on one accelerator.
func (m *Model) copiedBytes() (sum int64) {
	for _, g := range trainedGroups(m.actor.weights.groups) {
		sum += 4 * int64(g.Size())
	}
	switch n := int64(max(1, len(m.devices))); {
	case m.sharded() && m.dev.Accelerator():
		return sum / n
	case m.tree && !m.sharded() && !m.dev.Accelerator():
		return sum * n
	}
	return sum
}

// planDevices extends the plan of one leaf, for the part w of the work, to the process or to
// an accelerator. On a CPU, the memory of all devices is that of the process.
func (m *Model) planDevices(p *MemoryPlan, w Workload) {
	if !m.tree {
		return
	}
	n := int64(len(m.devices))
	if p.Caches > 0 { // conversations of the device's other leaves
		kept := m.keptCaches(w)
		p.Caches += (int64(m.leaves)/n - 1) * kept
	}
	if m.dev.Accelerator() {
		p.Moments /= n
		if m.sharded() {
			p.Weights = p.Weights/n + m.largestGroup()
		}
		return
	}
	if m.sharded() {
		p.Weights += n * m.largestGroup()
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
func (m *Model) plannedGaps(activations int64) int64 {
	return min(activations/3, int64(len(m.devices))*maxGaps)
}

// largestGroup is the size of the weights that are copied to a device at the same time.
func (m *Model) largestGroup() (most int64) {
	for _, l := range []*learner{m.actor, m.critic, m.ref} {
		if l == nil {
			continue
		}
		for _, g := range l.weights.groups {
			most = max(most, 4*int64(g.Size()))
		}
	}
	return most
}
