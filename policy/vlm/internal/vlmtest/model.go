package vlmtest

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// Options are those of package vlm that tests of its parts need.
type Options struct {
	Backend       string // "" is pure Go
	Devices       int
	SameBytes     bool
	PartPerDevice bool
	ShardWeights  bool
	BFloat16      bool
	Keep          net.KeepMode

	LoRA    *peft.Config
	Adapter string
	Freeze  []string

	Critic, CriticPath                  string // "" is none
	Reference, OffloadReference         bool
	TeacherDir                          string // folder of the reference; "" is the policy
	OffloadCritic, ZeroValueHead        bool
	OffloadMoments                      bool
	OffloadCriticMoments                bool
	MicroTokens, MicroRows              int // 0 is a micro-batch that tiny rows fill
	HeadTokens                          int
	MaxRows, CacheTokens, TokensPerCall int
	SharePrefix                         bool
	DraftTokens                         int
	World                               mpi.World // of ranks that train together; nil is this process alone
	Seed                                uint64
}

// Parts are the parts of a model that tests train.
type Parts struct {
	Sets *learn.Sets
	Text *generate.Encoder
}

// Model are the parts of a model, opened together. It is a policy.Learner.
type Model struct {
	Parts
	Cfg     *model.Config
	Devices []*device.Device
	Dev     *device.Device // the first of them
	Net     *net.Net
	Gen     *generate.Generator
	opened  *backend.Devices
}

// New opens the model of a new folder.
func New(t testing.TB, family model.Family, o Options) *Model {
	t.Helper()
	return Open(t, Folder(t, family, nil), o)
}

// Open opens a folder until the test ends.
func Open(t testing.TB, dir string, o Options) *Model {
	t.Helper()
	m, err := TryOpen(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// TryOpen opens a folder.
func TryOpen(ctx context.Context, dir string, o Options) (m *Model, err error) {
	m = &Model{}
	log := slog.New(slog.DiscardHandler)
	if m.Cfg, err = model.ReadConfig(dir); err != nil {
		return nil, err
	}
	if m.Text, err = generate.OpenEncoder(dir, m.Cfg, nil); err != nil {
		return nil, err
	}
	adapter, err := weights.Adapt(m.Cfg, o.LoRA, o.Adapter, log)
	if err != nil {
		return nil, err
	}
	if err := weights.Freeze(m.Cfg, o.Freeze); err != nil {
		return nil, err
	}
	ranks := 1
	if o.World != nil {
		ranks = o.World.Size()
	}
	m.opened, err = backend.Open(ctx, backend.Options{Backend: cmp.Or(o.Backend, backend.Go), Devices: o.Devices,
		Divided:   o.SameBytes,
		Processes: ranks, PartPerDevice: o.PartPerDevice, Log: log})
	if err != nil {
		return nil, err
	}
	if err := m.load(dir, o, adapter, ranks, log); err != nil || o.World == nil {
		return m, err
	}
	g, err := nodes.Join(ctx, nodes.Config{World: o.World, Timeout: time.Minute})
	if err == nil {
		m.Sets.Join(&learn.Peers{Communicator: g})
	}
	return m, err
}

// load puts the weights on the devices.
func (m *Model) load(dir string, o Options, adapter *peft.Config, ranks int, log *slog.Logger) (err error) {
	m.Devices, m.Dev = m.opened.All, m.opened.All[0]
	compute, parts := dtypes.Float32, 0
	if o.BFloat16 {
		compute = dtypes.BFloat16
	}
	if m.opened.Divided {
		parts = m.opened.Parts
	}
	var teacher *model.Config
	if o.TeacherDir != "" {
		if teacher, err = model.ReadConfig(o.TeacherDir); err != nil {
			return err
		}
		teacher.Rescale, teacher.NormMean, teacher.NormStd = m.Cfg.Rescale, m.Cfg.NormMean, m.Cfg.NormStd
	}
	spec := *m.Cfg
	spec.Value = o.Critic == learn.SharedCritic
	m.Net = net.New(net.NewKernels(m.Dev, m.Cfg, compute, o.Keep, o.SharePrefix), &spec)
	m.Sets, err = learn.Load(learn.Options{
		Dir: dir, Config: m.Cfg, Net: m.Net, Devices: m.Devices, Parts: parts,
		Sharded: o.ShardWeights && len(m.Devices) > 1, Ranks: ranks,
		Adapter: adapter, StoredAdapter: o.Adapter,
		CriticOptions: learn.CriticOptions{Kind: cmp.Or(o.Critic, learn.NoCritic), Dir: o.CriticPath,
			ZeroHead: o.ZeroValueHead,
			Offload:  o.OffloadCritic, OffloadMoments: o.OffloadCriticMoments},
		Batching: learn.Batching{Tokens: cmp.Or(o.MicroTokens, 128), Rows: o.MicroRows, HeadTokens: cmp.Or(o.HeadTokens, 64)},
		Seed:     o.Seed,
		Teacher:  teacher, TeacherDir: o.TeacherDir,
		Reference: o.Reference, OffloadReference: o.OffloadReference, OffloadMoments: o.OffloadMoments,
		Picture: m.Text.Picture, Prepare: func(*policy.Batch) { m.Gen.DropSessions() }, Log: log,
	})
	if err != nil {
		return err
	}
	s := generate.Settings{MaxRows: cmp.Or(o.MaxRows, 128), CacheTokens: o.CacheTokens, TokensPerCall: o.TokensPerCall,
		SharePrefix: o.SharePrefix, DraftTokens: o.DraftTokens, Leaves: parts,
		Sharded: m.Sets.Sharded}
	var w []*generate.Weights
	for _, r := range m.Sets.Actor.Replicas {
		w = append(w, &generate.Weights{Net: r.Net, Parts: r.Parts})
	}
	m.Gen = generate.New(m.Text, s, w)
	return nil
}

// Close frees everything on the devices.
func (m *Model) Close() error {
	if m.Sets.Peers != nil {
		_ = m.Sets.Peers.Close()
	}
	m.Gen.DropSessions()
	m.Sets.Free()
	return m.opened.Close()
}

// Generate implements policy.Policy.
func (m *Model) Generate(ctx context.Context, p []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	return m.Gen.Stream(ctx, p, s, nil)
}

// Forget implements policy.Policy.
func (m *Model) Forget(keys ...uint64) { m.Gen.Forget(keys...) }

// Score implements policy.Learner.
func (m *Model) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	return m.Sets.Score(ctx, learn.ScoreCall{Rows: rows, Want: want, What: what, Temperature: temperature})
}

// Accumulate implements policy.Learner.
func (p Parts) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	return p.Sets.Learn(ctx, &learn.Call{Batch: b, Objective: o, Accumulate: true})
}

// Step implements policy.Learner.
func (p Parts) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	return p.Sets.Learn(ctx, &learn.Call{Optimizer: opt, Step: true})
}

// Update implements policy.Learner.
func (p Parts) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	return p.Sets.Learn(ctx, &learn.Call{Batch: b, Objective: o, Optimizer: opt, Accumulate: true, Step: true})
}

// Save implements policy.Learner.
func (m *Model) Save(ctx context.Context, dir string) error { return m.Sets.Save(ctx, dir) }

// Restore implements policy.Learner.
func (m *Model) Restore(ctx context.Context, dir string) error {
	return m.Sets.Restore(ctx, dir, m.Gen.DropSessions)
}

// Saved returns the folder of a checkpoint.
func (m *Model) Saved(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, m.Save(t.Context(), dir))
	return dir
}
