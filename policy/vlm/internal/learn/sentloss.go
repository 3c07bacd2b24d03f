package learn

import (
	"encoding/gob"
	"fmt"
	"reflect"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/nodes"
)

func init() { // gob sends values of an interface only if it knows their types
	all := []loss.Policy{loss.OffPolicyMask{}, loss.Taught{}, standIn{}}
	for _, name := range loss.Builtin().Names() {
		if l, err := loss.Builtin().New(name, loss.DefaultOptions()); err == nil {
			all = append(all, l)
		}
	}
	for _, l := range all {
		gob.Register(l)
	}
}

// sendable reports whether other ranks can evaluate a loss: it and those in it are of package loss. Rank 0 evaluates
// another one for all.
func sendable(l loss.Policy) bool {
	if l == nil {
		return true
	}
	v := reflect.ValueOf(l)
	if v.Type().PkgPath() != reflect.TypeFor[loss.PPO]().PkgPath() {
		return false
	}
	for _, of := range v.Fields() {
		if inner, ok := of.Interface().(loss.Policy); ok && !sendable(inner) {
			return false
		}
	}
	return true
}

// standIn stands for a loss that only rank 0 can evaluate.
type standIn struct {
	Choice loss.Choice // the tokens that it compares, whose scores every rank computes
}

// Terms implements loss.Policy; it is never called.
func (standIn) Terms(*loss.Terms, *loss.Batch[float64]) error {
	return fmt.Errorf("vlm: the policy loss is evaluated on rank 0: %w", nodes.ErrProtocol)
}

// Compares implements what loss.ChoiceOf asks for.
func (p standIn) Compares() loss.Choice { return p.Choice }

// sentLoss returns what is sent for a policy loss.
func sentLoss(l loss.Policy) loss.Policy {
	if sendable(l) {
		return l
	}
	return standIn{Choice: loss.ChoiceOf(l)}
}
