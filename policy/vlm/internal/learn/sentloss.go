package learn

import (
	"encoding/gob"
	"fmt"
	"reflect"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/nodes"
)

// sentLosses are the types of losses that gob can send: those of package loss, but for the ones that contain another,
// of which only a Distill can.
var sentLosses = func() map[reflect.Type]bool {
	out := map[reflect.Type]bool{}
	o, all := loss.DefaultOptions(), loss.Builtin()
	for _, name := range all.Names() {
		if l, err := all.New(name, o); err == nil {
			out[reflect.TypeOf(l)] = true
			if l != reinforce {
				gob.Register(l)
			}
		}
	}
	gob.Register(standIn{})
	return out
}()

// reinforce has no fields, which gob refuses; a standIn is sent.
var reinforce loss.Policy = loss.Reinforce{}

// sendable reports whether other ranks can evaluate a loss. Rank 0 evaluates one of another package for all.
func sendable(l loss.Policy) bool {
	d, _ := l.(loss.Distill)
	return l == nil || sentLosses[reflect.TypeOf(l)] && sendable(d.Policy)
}

// standIn is sent for a Reinforce, or stands for a loss that only rank 0 can evaluate.
type standIn struct {
	Reinforce bool
	Choice    loss.Choice // the tokens that it compares, whose scores every rank computes
}

// Terms implements loss.Policy; it is never called.
func (standIn) Terms(*loss.Terms, *loss.Batch[float64]) error {
	return fmt.Errorf("vlm: the policy loss is evaluated on rank 0: %w", nodes.ErrProtocol)
}

// Compares implements what loss.ChoiceOf asks for.
func (p standIn) Compares() loss.Choice { return p.Choice }

// sentLoss returns what is sent for a policy loss.
func sentLoss(l loss.Policy) loss.Policy {
	switch d, distills := l.(loss.Distill); {
	case !sendable(l):
		return standIn{Choice: loss.ChoiceOf(l)}
	case l == reinforce:
		return standIn{Reinforce: true}
	case distills:
		d.Policy = sentLoss(d.Policy)
		return d
	}
	return l
}

// receivedLoss returns the loss for which another one was sent.
func receivedLoss(l loss.Policy) loss.Policy {
	switch p := l.(type) {
	case standIn:
		if p.Reinforce {
			return reinforce
		}
	case loss.Distill:
		p.Policy = receivedLoss(p.Policy)
		return p
	}
	return l
}
