package vlm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"vagen/internal/regular"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
)

// Several processes, the ranks of MPI, can train one model. Rank 0 leads: its methods are called as if it
// were alone. The others follow: they open the same model, receive the rows of every call of Score
// and Update, and compute their parts. The parts and the tree along which gradients are summed
// are those of one process, so results have the same bytes. All ranks have all weights and
// moments and apply the optimiser themselves, so only gradients, scores and statistics are exchanged.

// Nodes makes a model one of several processes that train together. MPI starts and connects them, so the program
// must be built with the tag mpi.
type Nodes struct {
	// Count is the number of processes, MPI's size: 1, 2, 4 or 8; 0 is 1. Times Devices it is at most 8. All call
	// Connect; then rank 0 trains, and the others Follow.
	Count int
	// Timeout limits the time until all ranks are connected, and that in which each must make
	// progress during a call; 0 is ten minutes. A rank of which nothing is heard for a minute, or this time if it is
	// shorter, is lost.
	Timeout time.Duration

	world mpi.World // instead of MPI's, in tests
}

// fill sets defaults and checks.
func (n *Nodes) fill(devices int, addf func(string, ...any)) {
	if n.Count == 0 {
		n.Count = 1
	}
	if n.Timeout == 0 {
		n.Timeout = nodes.DefaultTimeout
	}
	if n.Timeout < 0 {
		addf("Nodes.Timeout is %v, must be positive", n.Timeout)
	}
	if tree.Check(n.Count) != nil {
		addf("Nodes.Count is %d, must be 1, 2, 4 or 8", n.Count)
		n.Count = 1 // others divide by it
		return
	}
	if n.Count > 1 && devices > 0 && n.Count*devices > tree.Leaves {
		addf("Nodes.Count is %d and Devices %d: a step's rows are divided into %d parts, so together at most %d devices are allowed", n.Count, devices, tree.Leaves, tree.Leaves)
	}
}

// Rank starts MPI in this process, unless it is started, and returns its rank: 0 leads, and others follow. With a
// Count of 1 it is 0, without MPI. The error wraps ErrOption if the program has no MPI,
// or if Count is not MPI's size, which is 1 for a program started without mpirun or with that of another MPI.
func (n Nodes) Rank(ctx context.Context) (int, error) {
	w, err := n.start(ctx)
	if w == nil || err != nil {
		return 0, err
	}
	return w.Rank(), nil
}

func (n Nodes) start(ctx context.Context) (mpi.World, error) {
	n.fill(0, func(string, ...any) {})
	if n.Count == 1 || n.world != nil {
		return n.world, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.Timeout,
		fmt.Errorf("not all of the %d ranks have started within %v: %w", n.Count, n.Timeout, nodes.ErrLost))
	defer cancel()
	w, err := mpi.Start(ctx, n.Count)
	switch {
	case errors.Is(err, mpi.ErrUnavailable):
		return nil, fmt.Errorf("vlm: %w: Nodes.Count is %d: %w", ErrOption, n.Count, err)
	case err != nil:
		return nil, fmt.Errorf("vlm: %w", err)
	}
	return w, nil
}

// Follow takes part in rank 0's calls, on a rank with another ID that is connected, until rank 0
// closes its model, which is no error. No other method may be called meanwhile.
func (m *Model) Follow(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg == nil || m.sets.Peers == nil || m.sets.Peers.ID() == 0 {
		return fmt.Errorf("vlm: follow: %w: this process is not connected, or rank 0, which leads", ErrOption)
	}
	err := m.sets.Follow(ctx)
	if errors.Is(err, nodes.ErrEnded) {
		return nil
	}
	return fmt.Errorf("vlm: rank %d: %w", m.sets.Peers.ID(), m.sets.Peers.Failed(err))
}

// Connect connects this rank with all others, which must have the same model, weights, number of
// devices and options, as far as these change results. It must be called once, before the first
// Update, and waits until all ranks are there.
func (m *Model) Connect(ctx context.Context) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	n := &m.opts.Nodes
	switch {
	case n.Count < 2:
		return fmt.Errorf("vlm: connect: %w: Nodes.Count is %d, must be at least 2", ErrOption, n.Count)
	case m.sets.Peers != nil:
		return fmt.Errorf("vlm: %w: the ranks are connected already", ErrOption)
	}
	w, err := n.start(ctx)
	if err != nil {
		return err
	}
	c := nodes.Config{World: w, Timeout: n.Timeout}
	if c.Facts, err = m.facts(); err != nil {
		return err
	}
	log := m.opts.Log.With("rank", w.Rank(), "size", w.Size())
	log.Info("waiting for all ranks")
	connected, err := nodes.Join(ctx, c)
	if err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	m.sets.Join(connected)
	log.Info("all ranks are connected", "devices", len(m.devices))
	return nil
}

func (m *Model) leaveGroup() {
	if m.sets == nil || m.sets.Peers == nil {
		return
	}
	if err := m.sets.Peers.Close(); err != nil {
		m.opts.Log.Warn("the other ranks may not have ended", "rank", m.sets.Peers.ID(), "err", err)
	}
}

// facts are what must be the same on all ranks, so that they have the bytes of one process.
func (m *Model) facts() ([]nodes.Fact, error) {
	o := &m.opts
	config, err := regular.ReadFile(filepath.Join(m.dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	sum := sha256.Sum256(config)
	adapter := "none"
	if m.adapter != nil {
		adapter = fmt.Sprintf("%+v", *m.adapter)
	}
	kind, version, err := hardware(m.devices)
	if err != nil {
		return nil, err
	}
	var facts []nodes.Fact
	for _, f := range []struct {
		name  string
		value any
	}{
		{"Backend", m.dev.Name()}, {"kind of devices", kind}, {"version of the backend", version},
		{"Devices", len(m.devices)}, {"number of parts", m.opened.Parts}, {"BFloat16", o.BFloat16},
		{fused.Variable, m.dev.PureGo() || !fused.Registered()},
		{"RolloutDType", o.RolloutDType}, {"SharePrefix", o.SharePrefix}, {"Recompute", o.Recompute},
		{"MicroTokens", o.MicroTokens}, {"MicroRows", o.MicroRows}, {"CriticMicroTokens", o.CriticMicroTokens},
		{"CriticMicroRows", o.CriticMicroRows}, {"HeadTokens", o.HeadTokens}, {"Critic", o.Critic},
		{"Reference", o.Reference}, {"LoRA", adapter}, {"Freeze", fmt.Sprintf("%q", o.Freeze)},
		{"AutotuneSHA256", fmt.Sprintf("%q", o.AutotuneSHA256)}, {"SHA-256 of config.json", hex.EncodeToString(sum[:])},
	} {
		facts = append(facts, nodes.Fact{Name: f.name, Value: fmt.Sprint(f.value)})
	}
	return m.sets.Facts(facts)
}

// hardware describes what computes: results may differ between kinds of devices and versions.
func hardware(devices []*device.Device) (kind, version string, err error) {
	d := devices[0]
	if d.PureGo() {
		return "processor, " + runtime.GOARCH, runtime.Version(), nil
	}
	kinds, version, err := backend.Describe(d.Backend(), len(devices))
	if err != nil {
		return "", "", fmt.Errorf("vlm: describing the devices: %w", err)
	}
	slices.Sort(kinds)
	if kind = strings.Join(slices.Compact(kinds), " and "); !d.Accelerator() {
		kind += ", " + runtime.GOARCH
	}
	return kind, version, nil
}
