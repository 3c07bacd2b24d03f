package vlm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"vagen/internal/unmade"
	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/tokenizer"
)

// Model is a vision-language (or text) model from a Hugging Face folder. It
// implements policy.Learner.
//
// Its methods may be called from several goroutines; they run one at a time, but for Generate with Options.Continuous.
type Model struct {
	opts Options
	dir  string
	dev  *device.Device // the first of devices
	cfg  *model.Config
	text *generate.Encoder

	opened  *backend.Devices
	devices []*device.Device
	parts   int          // into which steps, scoring and generation are divided; 0 if they are not
	adapter *peft.Config // nil without LoRA

	overlapping overlapping // with Options.Continuous

	mu   sync.Mutex
	net  *net.Net
	sets *learn.Sets // nil before the weights are loaded

	gen         *generate.Generator // nil before the weights are loaded
	planned     bool                // the memory of a training step has been logged
	memoryLimit func() (bytes int64, says string)
	closed      bool
}

var (
	_ policy.Learner         = (*Model)(nil)
	_ policy.MetricsReporter = (*Model)(nil)
	_ policy.InputLister     = (*Model)(nil)
)

// Open loads the model of a folder: config.json, tokenizer, image processor and
// safetensors weights.
func Open(ctx context.Context, dir string, o Options) (*Model, error) {
	m, err := describe(dir, o)
	if err != nil {
		return nil, err
	}
	if err := m.openDevices(ctx); err != nil {
		m.Close()
		return nil, err
	}
	if err := m.load(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// describe is the part of Open that needs no device and reads no weights.
func describe(dir string, o Options) (*Model, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	cfg, err := model.ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if cfg.Critic {
		return nil, fmt.Errorf("vlm: %w: %s is a critic, which cannot generate; use it as CriticPath", ErrOption, dir)
	}
	m := &Model{opts: o, dir: dir, cfg: cfg, memoryLimit: usage.Limit}
	if m.text, err = generate.OpenEncoder(dir, cfg, o.Template); err != nil {
		return nil, err
	}
	return m, errors.Join(m.configureAdapters(), m.checkCriticConfig(), m.checkPasses())
}

var errZero = unmade.Error("vlm.Model", "Open")

// usable returns an error if the model has been closed, or is a zero value. The mutex must be held.
func (m *Model) usable() error {
	switch {
	case m.cfg == nil:
		return errZero
	case m.closed:
		return ErrClosed
	}
	return nil
}

// lock locks the model unless it is not usable.
func (m *Model) lock() (unlock func(), err error) {
	m.mu.Lock()
	if err := m.usable(); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	return m.mu.Unlock, nil
}

// Close frees everything on the device. The Model must not be used afterwards.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.cfg == nil {
		return nil
	}
	m.closed = true
	m.leaveGroup()
	m.gen.DropSessions()
	m.sets.Free()
	if m.opened == nil {
		return nil
	}
	return m.opened.Close()
}

// Backend returns the name of the backend.
func (m *Model) Backend() string {
	if m.dev == nil {
		return ""
	}
	return m.dev.Name()
}

// Parameters returns the numbers of trained parameters: of the policy, and of a separate
// critic.
func (m *Model) Parameters() (policyCount, criticCount int) {
	if m.sets == nil {
		return 0, 0
	}
	return m.sets.Actor.Size(), m.sets.Critic.Size()
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.encoder().Tok }

// Gauges implements policy.MetricsReporter: the number of executables, how many were loaded
// instead of compiled (see Options.CompileCache), the memory of arrays on all devices, now and
// at most, with drafts the mean number of tokens that a pass of decoding made of a conversation, and,
// with several devices or nodes, the part of the last update's time that they spent on
// exchanging gradients and weights. Nodes also report what this one sent for the last update, and the
// part of its time in which this one waited until others had computed their parts.
func (m *Model) Gauges() map[string]float64 {
	var held, peak int64 // of all devices
	for _, d := range m.devices {
		_, now := d.Live()
		held, peak = held+now, peak+d.Peak()
	}
	if m.cfg == nil {
		return nil
	}
	loaded, _ := m.dev.Store().Counts()
	out := map[string]float64{
		"executables":           float64(m.dev.Executables()),
		"executables_loaded":    float64(loaded),
		"device_memory_mb":      float64(held) / 1e6,
		"device_memory_peak_mb": float64(peak) / 1e6,
	}
	if m.opts.DraftTokens > 0 {
		out["tokens_per_pass"] = m.gen.TokensPerPass()
	}
	nodes := m.opts.Nodes.Count
	if nodes > 1 {
		out["nodes"] = float64(nodes)
		out["exchange_sent_mb"] = float64(m.sets.Exchange.Sent.Load()) / 1e6
		out["exchange_wait_share"] = math.Float64frombits(m.sets.Exchange.Wait.Load())
	}
	if len(m.devices)*nodes > 1 {
		out["devices"] = float64(len(m.devices))
		out["exchange_share"] = math.Float64frombits(m.sets.Exchange.Share.Load())
	}
	return out
}

// CompileTime returns the time spent in building and compiling programs.
func (m *Model) CompileTime() time.Duration {
	if m.dev == nil {
		return 0
	}
	return m.dev.CompileTime()
}

// ReadsImages reports whether the model has a vision tower.
func (m *Model) ReadsImages() bool { return m.cfg != nil && m.cfg.Vision != nil }

// Family returns the architecture by its name in config.json.
func (m *Model) Family() string {
	if m.cfg == nil {
		return ""
	}
	return string(m.cfg.Family)
}
