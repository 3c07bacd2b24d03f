package learn

import (
	"errors"
	"time"

	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
)

// Group is a model's connection to the other nodes.
type Group struct {
	*nodes.Group
}

// Sent returns the number of bytes that this node has sent.
func (g *Group) Sent() int64 {
	if g == nil {
		return 0
	}
	return g.Sent()
}

// Failed ends the group if err is not nil, because the other nodes take part in the same call. It
// returns err.
func (g *Group) Failed(err error) error {
	if g != nil && err != nil {
		g.Fail(err)
	}
	return err
}

// span returns the leaves of one of this node's devices: from included, to excluded.
func (l *Learner) span(device, leaves int) (from, to int) {
	node, count := l.Group.place()
	n := len(l.Replicas)
	return tree.Span(node*n+device, count*n, leaves)
}

// place returns the number of this node and that of all.
func (g *Group) place() (id, count int) {
	if g == nil {
		return 0, 1
	}
	return g.ID(), g.Nodes()
}

// Waited returns how long this node has waited until others had computed their parts.
func (g *Group) Waited() time.Duration {
	if g == nil {
		return 0
	}
	return g.Waited()
}

// ErrDiverged is wrapped by the error of an update after which nodes have different weights.
var ErrDiverged = errors.New("nodes diverged")
