package learn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
)

// Peers is a model's connection to the other ranks.
type Peers struct {
	*nodes.Communicator
}

// Sent returns the number of bytes that this rank has sent.
func (g *Peers) Sent() int64 {
	if g == nil {
		return 0
	}
	return g.Communicator.Sent()
}

// Failed ends the group if err is not nil, because the other ranks take part in the same call. It
// returns err.
func (g *Peers) Failed(err error) error {
	if g != nil && err != nil {
		g.Fail(err)
	}
	return err
}

// Whole returns the context of a call in which other ranks take part: its end would end the group, so a run that is
// interrupted could not save while MPI ends all of its processes.
func (g *Peers) Whole(ctx context.Context) context.Context {
	if g == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// span returns the leaves of one of this rank's devices: from included, to excluded.
func (l *Learner) span(device, leaves int) (from, to int) {
	node, count := l.Peers.place()
	n := len(l.Replicas)
	return tree.Span(node*n+device, count*n, leaves)
}

// place returns the number of this rank and that of all.
func (g *Peers) place() (id, count int) {
	if g == nil {
		return 0, 1
	}
	return g.ID(), g.Nodes()
}

// Waited returns how long this rank has waited until others had computed their parts.
func (g *Peers) Waited() time.Duration {
	if g == nil {
		return 0
	}
	return g.Communicator.Waited()
}

// ErrDiverged is wrapped by the error of an update after which ranks have different weights.
var ErrDiverged = errors.New("ranks diverged")

// Facts adds the digests of all weights to facts that must be the same on all ranks.
func (s *Sets) Facts(facts []nodes.Fact) ([]nodes.Fact, error) {
	for _, l := range []struct {
		name string
		*Learner
	}{{"policy", s.Actor}, {"critic", s.Critic}, {"reference policy", s.Ref}} {
		if l.Learner == nil {
			continue
		}
		h := sha256.New()
		for group := range l.Weights.Groups {
			if err := l.Weights.Digest(h, group, every); err != nil {
				return nil, err
			}
		}
		facts = append(facts, nodes.Fact{Name: "SHA-256 of the weights of the " + l.name,
			Value: hex.EncodeToString(h.Sum(nil))})
	}
	return facts, nil
}
