package vlm

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"vagen/internal/endtokens"
	"vagen/internal/regular"
	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// Model is a vision-language (or text) model from a Hugging Face folder. It
// implements policy.Learner.
//
// Its methods may be called from several goroutines; they run one at a time.
type Model struct {
	opts Options
	dir  string
	dev  *device.Device // the first of devices
	cfg  *model.Config
	tok  *tokenizer.Tokenizer
	chat *tokenizer.Chat
	proc *processor.Processor // nil for text models

	opened  *backend.Devices
	devices []*device.Device
	tree    bool // steps, scoring and generation are divided into parts
	leaves  int  // the number of parts

	group *group // of nodes; nil until they are connected

	exchangeShare atomic.Uint64 // bits of the devices' communication as a part of the last step's time
	waitShare     atomic.Uint64 // bits of the wait for other nodes as a part of the last step's time
	exchangeSent  atomic.Int64  // bytes to other nodes in the last step

	mu     sync.Mutex
	net    *net
	actor  *learner
	critic *learner // nil unless separate
	ref    *learner // nil without reference

	adapter      *peft.Config             // nil without LoRA
	zeroAdapters map[string]*device.Array // zero adapters of the reference

	pictures    *pictureCache
	chats       map[uint64]*conversation
	resumed     map[uint64]*resumed // recorded conversations, until they are continued
	batches     []*session
	narrow      map[*replica]*parts // results of generationWeights that have copies
	narrowed    []*device.Array     // the copies, on several devices
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
	raw, err := regular.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	cfg, err := model.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("vlm: %s: %w", dir, err)
	}
	if cfg.Critic {
		return nil, fmt.Errorf("vlm: %w: %s is a critic, which cannot generate; use it as CriticPath", ErrOption, dir)
	}
	m := &Model{opts: o, dir: dir, cfg: cfg, chats: map[uint64]*conversation{}, pictures: newPictureCache(playedPictures), memoryLimit: usage.Limit}
	if err := m.openText(dir); err != nil {
		return nil, err
	}
	return m, m.configureAdapters()
}

// openText loads tokenizer, chat template, end tokens of generation and image processor, and
// checks them against the config.
func (m *Model) openText(dir string) error {
	var err error
	if m.tok, err = tokenizer.Load(dir); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if m.chat, err = m.tok.Chat(m.opts.Template); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if n := m.tok.VocabSize(); n > m.cfg.Text.Vocab {
		return fmt.Errorf("vlm: %s: the tokenizer has %d ids, the embedding only %d rows", dir, n, m.cfg.Text.Vocab)
	}
	generation, err := endtokens.Generation(dir, m.cfg.Text.Vocab)
	if err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	_, turn := m.chat.EndOfTurn()
	m.cfg.EndOfTurn = endtokens.Union(m.cfg.EndOfTurn, generation, []int32{turn})
	if m.cfg.Vision == nil {
		return nil
	}
	if m.proc, err = processor.Load(dir); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	c, v := m.proc.Config(), m.cfg.Vision
	if c.PatchSize != v.Patch || c.MergeSize != v.Merge || c.TemporalPatchSize != v.Temporal {
		return fmt.Errorf("vlm: %s: image processor has patches of %d, merged by %d, %d frames; the vision tower needs %d, %d, %d",
			dir, c.PatchSize, c.MergeSize, c.TemporalPatchSize, v.Patch, v.Merge, v.Temporal)
	}
	if pad := m.tok.Special().ImagePad; pad != m.cfg.ImageToken {
		return fmt.Errorf("vlm: %s: image_token_id is %d, the tokenizer's image placeholder is %d", dir, m.cfg.ImageToken, pad)
	}
	m.cfg.Rescale, m.cfg.NormMean, m.cfg.NormStd = c.Rescale, c.Mean, c.Std
	return nil
}

// Close frees everything on the device. The Model must not be used afterwards.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.leaveGroup()
	m.dropSessions()
	m.actor.free()
	m.critic.free()
	m.ref.free()
	m.freeZeroAdapters()
	if m.opened == nil {
		return nil
	}
	return m.opened.Close()
}

// Backend returns the name of the backend.
func (m *Model) Backend() string { return m.dev.Name() }

// Parameters returns the numbers of trained parameters: of the policy, and of a separate
// critic.
func (m *Model) Parameters() (policyCount, criticCount int) {
	count := func(l *learner) (n int) {
		if l == nil {
			return 0
		}
		for _, g := range l.weights.groups {
			n += g.Size()
		}
		return n
	}
	return count(m.actor), count(m.critic)
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Gauges implements policy.MetricsReporter: the number of executables, how many were loaded
// instead of compiled (see Options.CompileCache), the memory of arrays on all devices, now and
// at most, and, with several devices or nodes, the part of the last update's time that they spent on
// exchanging gradients and weights. Nodes also report what this one sent for the last update, and the
// part of its time in which this one waited until others had computed their parts.
func (m *Model) Gauges() map[string]float64 {
	var held, peak int64 // of all devices
	for _, d := range m.devices {
		_, now := d.Live()
		held, peak = held+now, peak+d.Peak()
	}
	loaded, _ := m.dev.Store().Counts()
	out := map[string]float64{
		"executables":           float64(m.dev.Executables()),
		"executables_loaded":    float64(loaded),
		"device_memory_mb":      float64(held) / 1e6,
		"device_memory_peak_mb": float64(peak) / 1e6,
	}
	nodes := m.opts.Nodes.Count
	if nodes > 1 {
		out["nodes"] = float64(nodes)
		out["exchange_sent_mb"] = float64(m.exchangeSent.Load()) / 1e6
		out["exchange_wait_share"] = math.Float64frombits(m.waitShare.Load())
	}
	if len(m.devices)*nodes > 1 {
		out["devices"] = float64(len(m.devices))
		out["exchange_share"] = math.Float64frombits(m.exchangeShare.Load())
	}
	return out
}

// CompileTime returns the time spent in building and compiling programs.
func (m *Model) CompileTime() time.Duration { return m.dev.CompileTime() }

// ReadsImages reports whether the model has a vision tower.
func (m *Model) ReadsImages() bool { return m.cfg.Vision != nil }

// Family returns the architecture by its name in config.json.
func (m *Model) Family() string { return string(m.cfg.Family) }
