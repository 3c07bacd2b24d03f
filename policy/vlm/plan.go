package vlm

import (
	"fmt"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/plan"
)

// Plan estimates the memory of a workload. Program and Heap start from the process's
// present use, so trajectories that do not exist yet are not included; a constant is
// added for the compiler. A plan that exceeds the limit of the process is logged as a warning,
// except on an accelerator, whose memory is not checked. For the small models that this package's tests train, a plan
// made before the first step is within a fifth of the process's measured peak.
func (m *Model) Plan(w Workload) (MemoryPlan, error) {
	unlock, err := m.lock()
	if err != nil {
		return MemoryPlan{}, err
	}
	defer unlock()
	for _, f := range []struct {
		name         string
		value, least int
	}{
		{"Rows", w.Rows, 1}, {"Played", w.Played, 0}, {"Tokens", w.Tokens, 1}, {"Wanted", w.Wanted, 0},
		{"Images", w.Images, 0}, {"Patches", w.Patches, 0},
		{"ReadTokens", w.ReadTokens, 0}, {"ReadImages", w.ReadImages, 0}, {"OpenTokens", w.OpenTokens, 0},
		{"Snapshots", w.Snapshots, 0}, {"Compared.K", w.Compared.K, 0}, {"UpdateRows", w.UpdateRows, 0}, {"Hint", w.Hint, 0},
	} {
		if f.value < f.least {
			return MemoryPlan{}, fmt.Errorf("vlm: plan: %s is %d, must be at least %d", f.name, f.value, f.least)
		}
	}
	device.Trim() // what is free now is used again
	p := m.planSetup().Memory(w)
	m.warnMemory("the planned work", p)
	return p, nil
}

// Setup returns what plans depend on.
func (m *Model) planSetup() *plan.Setup {
	s := &plan.Setup{Net: m.net, Packer: m.sets.Packer(m.net), HeadTokens: m.opts.HeadTokens, MaxRows: m.opts.MaxRows,
		CacheTokens: m.opts.CacheTokens, Continuous: m.opts.Continuous,
		Devices: len(m.devices), Nodes: m.opts.Nodes.Count, Sharded: m.sets.Sharded, Parts: m.parts,
		Narrow: m.gen.NarrowBytes(), Pictures: m.text.Pictures.Growth()}
	for _, d := range m.devices {
		s.Resident += d.Resident()
	}
	for _, a := range m.sets.Zeros {
		s.Zeros += a.Bytes()
	}
	for _, l := range m.sets.All() {
		set := plan.Set{Net: l.Net, Held: l.Weights.Bytes()}
		if l != m.sets.Ref {
			set.Moments = l.MomentBytes
		}
		if l != m.sets.Actor {
			set.OnHost = l.HostBytes()
		}
		s.Sets = append(s.Sets, set)
	}
	return s
}

// logPlan logs the memory plan of the first optimiser step.
func (m *Model) logPlan(b *policy.Batch) {
	if m.planned {
		return
	}
	m.planned = true
	w := Workload{Train: true, Rows: max(1, b.Len()), Tokens: 1}
	patches, images, wanted := 0, 0, 0
	for _, want := range learn.NonZero(len(b.Tokens), b.Weight, b.EchoWeight, b.ValueWeight) {
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
			if pic, err := m.text.Picture(im); err == nil {
				images, patches = images+1, patches+pic.Grid.H*pic.Grid.W
			}
		}
	}
	w.Patches = patches / max(1, images)
	if k := len(b.Teacher) / max(1, len(b.Tokens)); k > 0 && b.Chosen == nil {
		w.Compared.By = loss.WholeVocabulary
	} else if k > 0 {
		w.Compared = loss.Choice{By: loss.ByTeacher, K: k}
	}
	p := m.planSetup().Memory(w)
	m.opts.Log.Info("memory plan of a training step", "rows", w.Rows, "tokens", w.Tokens, "plan", p)
	m.warnMemory("a training step", p)
}

// warnMemory logs a warning if a plan exceeds the limit of the process.
func (m *Model) warnMemory(what string, p MemoryPlan) {
	if limit, says := m.memoryLimit(); limit > 0 && p.Host() > limit && (p.Compared > 0 || !m.dev.Accelerator()) {
		m.opts.Log.Warn(what+" may need more memory than available; MicroTokens, Recompute and LoRA reduce it",
			"plan", plan.Megabytes(p.Host()), "limit", plan.Megabytes(limit), "says", says)
	}
}
