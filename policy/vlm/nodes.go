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
	"strconv"
	"strings"
	"time"

	"vagen/internal/regular"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
)

// Several processes, the nodes, can train one model. Node 0 leads: its methods are called as if it
// were alone. The others follow: they open the same model, receive the rows of every call of Score
// and Update, and compute their parts. The parts and the tree along which gradients are summed
// are those of one process, so results have the same bytes. All nodes have all weights and
// moments and apply the optimiser themselves, so only gradients, scores and statistics are exchanged.

// Nodes makes a model one of several processes that train together.
type Nodes struct {
	// Count is the number of processes: 1, 2, 4 or 8; 0 is 1. Times Devices it is at most 8.
	Count int
	// ID is the number of this process. All call Connect; then node 0 trains, and the others Follow.
	ID int
	// Coordinator is the host:port of node 0.
	Coordinator string
	// Address is the host:port at which this node expects the others; "" is Coordinator on node
	// 0, and a free port elsewhere.
	Address string
	// Token is what nodes present to each other. It may be empty if only this machine can reach
	// the addresses.
	Token string
	// Cert, CertKey and CA are files in PEM: this node's certificate, its key, and the authorities
	// that sign the certificates of all nodes. With them all connections use TLS, and nodes verify
	// each other. All must be set, or none. A certificate must name the host of Coordinator on
	// node 0, and elsewhere that of Address or the IP from which node 0 is reached.
	Cert, CertKey, CA string
	// Timeout limits the time until all nodes are connected, and that in which each must make
	// progress during a call; 0 is ten minutes.
	Timeout time.Duration
}

// ErrCertificate is wrapped by errors about TLS between nodes: files of Nodes that cannot be used,
// and nodes that do not accept each other's certificates.
var ErrCertificate = nodes.ErrCertificate

// fill sets defaults and checks.
func (n *Nodes) fill(devices int, addf func(string, ...any)) {
	if n.Count == 0 {
		n.Count = 1
	}
	if n.Timeout == 0 {
		n.Timeout = nodes.DefaultTimeout
	}
	if tree.Check(n.Count) != nil {
		addf("Nodes.Count is %d, must be 1, 2, 4 or 8", n.Count)
		n.Count = 1 // others divide by it
		return
	}
	if n.Count == 1 {
		if n.ID != 0 {
			addf("Nodes.ID is %d, but Nodes.Count is 1", n.ID)
		}
		return
	}
	if devices > 0 && n.Count*devices > tree.Leaves {
		addf("Nodes.Count is %d and Devices %d: a step's rows are divided into %d parts, so together at most %d devices are allowed", n.Count, devices, tree.Leaves, tree.Leaves)
	}
	c := n.config()
	if err := c.Check(); err != nil {
		addf("Nodes: %w", err)
	}
}

func (n *Nodes) config() nodes.Config {
	return nodes.Config{Nodes: n.Count, ID: n.ID, Coordinator: n.Coordinator, Address: n.Address, Token: n.Token, Timeout: n.Timeout,
		TLS: nodes.TLS{Cert: n.Cert, CertKey: n.CertKey, CA: n.CA}}
}

// Follow takes part in node 0's calls, on a node with another ID that is connected, until node 0
// closes its model, which is no error. No other method may be called meanwhile.
func (m *Model) Follow(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.group == nil || m.opts.Nodes.ID == 0 {
		return fmt.Errorf("vlm: follow: %w: Nodes.ID is %d (connected: %v), must be at least 1, and connected", ErrOption, m.opts.Nodes.ID, m.group != nil)
	}
	err := m.follow(ctx)
	if errors.Is(err, nodes.ErrEnded) {
		return nil
	}
	return fmt.Errorf("vlm: node %d: %w", m.opts.Nodes.ID, m.group.Failed(err))
}

// Connect connects this node with all others, which must have the same model, weights, number of
// devices and options, as far as these change results. It must be called once, before the first
// Update, and waits until all nodes are there.
func (m *Model) Connect(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := &m.opts.Nodes
	switch {
	case m.closed:
		return ErrClosed
	case n.Count < 2:
		return fmt.Errorf("vlm: connect: %w: Nodes.Count is %d, must be at least 2", ErrOption, n.Count)
	case m.group != nil:
		return fmt.Errorf("vlm: %w: the nodes are connected already", ErrOption)
	}
	c := n.config()
	var err error
	if c.Facts, err = m.facts(); err != nil {
		return err
	}
	m.opts.Log.Info("waiting for all nodes", "node", n.ID, "nodes", n.Count, "coordinator", n.Coordinator)
	c.Log = m.opts.Log
	connected, err := nodes.Join(ctx, c)
	if err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	m.group, m.images = &learn.Group{Group: connected}, &imageTable{}
	for _, l := range []*learn.Learner{m.actor, m.critic, m.ref} {
		if l != nil {
			l.Group = m.group
		}
	}
	m.opts.Log.Info("all nodes are connected", "node", n.ID, "nodes", n.Count, "devices", len(m.devices))
	return nil
}

func (m *Model) leaveGroup() {
	if m.group != nil {
		m.group.Close()
	}
}

// facts are what must be the same on all nodes, so that they have the bytes of one process.
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
	facts := []nodes.Fact{
		{Name: "Backend", Value: m.dev.Name()},
		{Name: "kind of devices", Value: kind},
		{Name: "version of the backend", Value: version},
		{Name: "Devices", Value: strconv.Itoa(len(m.devices))},
		{Name: "number of parts", Value: strconv.Itoa(m.leaves)},
		{Name: "BFloat16", Value: strconv.FormatBool(o.BFloat16)},
		{Name: "Recompute", Value: string(o.Recompute)},
		{Name: "MicroTokens", Value: strconv.Itoa(o.MicroTokens)},
		{Name: "MicroRows", Value: strconv.Itoa(o.MicroRows)},
		{Name: "CriticMicroTokens", Value: strconv.Itoa(o.CriticMicroTokens)},
		{Name: "CriticMicroRows", Value: strconv.Itoa(o.CriticMicroRows)},
		{Name: "HeadTokens", Value: strconv.Itoa(o.HeadTokens)},
		{Name: "Critic", Value: string(o.Critic)},
		{Name: "Reference", Value: strconv.FormatBool(o.Reference)},
		{Name: "LoRA", Value: adapter},
		{Name: "Freeze", Value: fmt.Sprintf("%q", o.Freeze)},
		{Name: "AutotuneSHA256", Value: fmt.Sprintf("%q", o.AutotuneSHA256)},
		{Name: "SHA-256 of config.json", Value: hex.EncodeToString(sum[:])},
	}
	for _, l := range []struct {
		name string
		*learn.Learner
	}{{"policy", m.actor}, {"critic", m.critic}, {"reference policy", m.ref}} {
		if l.Learner == nil {
			continue
		}
		h := sha256.New()
		for group := range l.Weights.Groups {
			if err := l.Weights.Digest(h, group, func(model.Param) bool { return true }); err != nil {
				return nil, err
			}
		}
		facts = append(facts, nodes.Fact{Name: "SHA-256 of the weights of the " + l.name, Value: hex.EncodeToString(h.Sum(nil))})
	}
	return facts, nil
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
