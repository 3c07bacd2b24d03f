package vlm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vagen/internal/regular"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/processor"
)

// load puts the weights on the devices.
func (m *Model) load() error {
	o := &m.opts
	keep := map[Recompute]net.KeepMode{
		RecomputeNothing: net.KeepAll, RecomputeAttention: net.KeepMost, RecomputeBlocks: net.KeepInputs,
	}[o.Recompute]
	spec := *m.cfg
	spec.Value = o.Critic == SharedCritic
	m.net = net.New(net.NewKernels(m.dev, m.cfg, o.compute(), keep, o.SharePrefix), &spec)
	if err := generate.CheckDraftsOn(m.dev, o.DraftTokens); err != nil {
		return err
	}
	if err := m.checkRolloutDType(); err != nil {
		return err
	}
	teacher, err := m.teacher()
	if err != nil {
		return err
	}
	m.sets, err = learn.Load(learn.Options{
		Dir: m.dir, Config: m.cfg, Net: m.net, Devices: m.devices, Parts: m.parts,
		Sharded: o.ShardWeights && len(m.devices) > 1, Ranks: o.Nodes.Count, Adapter: m.adapter, StoredAdapter: o.Adapter,
		CriticOptions: learn.CriticOptions{Kind: string(o.Critic), Dir: o.CriticPath, ZeroHead: o.ZeroValueHead,
			Offload: o.OffloadCritic, OffloadMoments: o.OffloadCriticMoments},
		Batching: learn.Batching{Tokens: o.MicroTokens, Rows: o.MicroRows,
			CriticTokens: o.CriticMicroTokens, CriticRows: o.CriticMicroRows, HeadTokens: o.HeadTokens},
		Teacher: teacher, TeacherDir: o.ReferencePath,
		Seed: o.Seed, Reference: o.Reference, OffloadReference: o.OffloadReference, OffloadMoments: o.OffloadMoments,
		Picture: m.text.Picture, Prepare: m.prepare, Log: o.Log,
	})
	if err != nil {
		return err
	}
	m.gen = m.newGenerator()
	return nil
}

// teacher returns the architecture of ReferencePath, nil without one. It refuses a model that reads other tokens or
// pictures than the policy.
func (m *Model) teacher() (*model.Config, error) {
	dir := m.opts.ReferencePath
	if dir == "" {
		return nil, nil
	}
	t, err := model.ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w: ReferencePath: %w", ErrOption, err)
	}
	if t.Critic || t.Family != m.cfg.Family || t.ImageToken != m.cfg.ImageToken {
		return nil, fmt.Errorf("vlm: %w: ReferencePath %s: a teacher must be a model of the policy's family %s with its image token %d, it is %s (critic: %v) with %d",
			ErrOption, dir, m.cfg.Family, m.cfg.ImageToken, t.Family, t.Critic, t.ImageToken)
	}
	if own, its := m.cfg.Text.Vocab, t.Text.Vocab; its < own {
		return nil, fmt.Errorf("vlm: %w: ReferencePath %s: it has %d rows of embeddings, the policy %d: it could not score "+
			"all tokens that the policy may write", ErrOption, dir, its, own)
	}
	var files [2][]byte
	for i, of := range []string{m.dir, dir} {
		if files[i], err = regular.ReadFile(filepath.Join(of, "tokenizer.json")); err != nil {
			return nil, fmt.Errorf("vlm: %w", err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		return nil, fmt.Errorf("vlm: %w: ReferencePath %s: its tokenizer.json differs from the policy's, so that tokens would mean other texts", ErrOption, dir)
	}
	if t.Vision == nil {
		return t, nil
	}
	if own, its := m.cfg.Vision, t.Vision; own == nil || own.Patch != its.Patch || own.Merge != its.Merge ||
		own.Temporal != its.Temporal {
		return nil, fmt.Errorf("vlm: %w: ReferencePath %s: it divides pictures into other patches than the policy",
			ErrOption, dir)
	}
	proc, err := processor.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w: ReferencePath: %w", ErrOption, err)
	}
	c := proc.Config()
	t.Rescale, t.NormMean, t.NormStd = c.Rescale, c.Mean, c.Std
	return t, nil
}

// checkCriticConfig refuses a critic with its own config.json whose settings differ from the policy's: it is computed by
// the policy's programs on the policy's pictures. Other differences change the shapes of weights, which are compared.
func (m *Model) checkCriticConfig() error {
	dir := m.opts.CriticPath
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); errors.Is(err, fs.ErrNotExist) {
		return nil // an adapter, or weights alone
	}
	c, err := model.ReadConfig(dir)
	if err != nil {
		return fmt.Errorf("vlm: %w: CriticPath: %w", ErrOption, err)
	}
	c.Rescale, c.NormMean, c.NormStd = m.cfg.Rescale, m.cfg.NormMean, m.cfg.NormStd
	if c.Vision != nil {
		proc, err := processor.LoadConfig(dir)
		if err == nil {
			c.Rescale, c.NormMean, c.NormStd = proc.Rescale, proc.Mean, proc.Std
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("vlm: %w: CriticPath: %w", ErrOption, err)
		}
	}
	if err := c.ComputesLike(m.cfg); err != nil {
		return fmt.Errorf("vlm: %w: CriticPath %s: %w", ErrOption, dir, err)
	}
	return nil
}

// newGenerator returns a generator with the policy's weights.
func (m *Model) newGenerator() *generate.Generator {
	s := generate.Settings{MaxRows: m.opts.MaxRows, CacheTokens: m.opts.CacheTokens, TokensPerCall: m.opts.TokensPerCall,
		Leaves: m.parts, Sharded: m.sets.Sharded,
		SharePrefix: m.opts.SharePrefix, DraftTokens: m.opts.DraftTokens, Packed: packedTypes[m.opts.RolloutDType],
		Continuous: m.opts.Continuous}
	var w []*generate.Weights
	for _, r := range m.sets.Actor.Replicas {
		w = append(w, &generate.Weights{Net: r.Net, Parts: r.Parts})
	}
	return generate.New(m.text, s, w)
}

// prepare ends all conversations before learning, because it needs their memory and changes the weights.
func (m *Model) prepare(b *policy.Batch) {
	m.gen.DropSessions()
	if first := m.text.Pictures.MarkTraining(); first || m.dev.Large() {
		device.Trim() // memory of generation and scoring
	}
	if b != nil {
		m.logPlan(b)
	}
}
