package learn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/tree"
)

// span returns the leaves of one of this rank's devices: from included, to excluded.
func (l *Learner) span(device, leaves int) (from, to int) {
	n := len(l.Replicas)
	return tree.Span(l.Peers.ID()*n+device, l.Peers.Nodes()*n, leaves)
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
