package learn

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"reflect"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/nodes"
)

// sentLoss is a policy loss.
type sentLoss struct {
	Kind   string // its type; "" is none
	Fields []byte
	Inner  *sentLoss // Policy of a loss.Distill: gob cannot encode an interface
}

// sentLosses are the losses that can be sent: those of package loss, but for the ones that contain another, of
// which only a Distill can.
var sentLosses = func() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	o, all := loss.DefaultOptions(), loss.Builtin()
	for _, name := range all.Names() {
		if l, err := all.New(name, o); err == nil {
			out[fmt.Sprintf("%T", l)] = reflect.TypeOf(l)
		}
	}
	return out
}()

// sendable reports whether other ranks can evaluate a loss. Rank 0 evaluates one of another package for all.
func sendable(l loss.Policy) bool {
	d, _ := l.(loss.Distill)
	of := reflect.TypeOf(l)
	return l == nil || sentLosses[of.String()] == of && sendable(d.Policy)
}

// onRank0 stands for a loss that only rank 0 can evaluate.
type onRank0 struct {
	Choice loss.Choice // the tokens that it compares, whose scores every rank computes
}

// Terms implements loss.Policy; it is never called.
func (onRank0) Terms(*loss.Terms, *loss.Batch[float64]) error {
	return fmt.Errorf("vlm: the policy loss is evaluated on rank 0: %w", nodes.ErrProtocol)
}

// Compares implements what loss.ChoiceOf asks for.
func (p onRank0) Compares() loss.Choice { return p.Choice }

// sendLoss encodes a policy loss for the other ranks.
func sendLoss(l loss.Policy) (sentLoss, error) {
	if l == nil {
		return sentLoss{}, nil
	}
	if !sendable(l) {
		l = onRank0{loss.ChoiceOf(l)}
	}
	s := sentLoss{Kind: fmt.Sprintf("%T", l)}
	if d, ok := l.(loss.Distill); ok && d.Policy != nil {
		inner, err := sendLoss(d.Policy)
		if err != nil {
			return s, err
		}
		d.Policy, s.Inner = nil, &inner
		l = d
	}
	if reflect.TypeOf(l).NumField() == 0 { // which gob cannot encode
		return s, nil
	}
	var raw bytes.Buffer
	err := gob.NewEncoder(&raw).Encode(l)
	s.Fields = raw.Bytes()
	return s, err
}

// Policy decodes a loss; one that does not exist gives nodes.ErrProtocol.
func (s *sentLoss) Policy() (loss.Policy, error) {
	if s.Kind == "" {
		return nil, nil
	}
	kind := sentLosses[s.Kind]
	if own := reflect.TypeFor[onRank0](); s.Kind == own.String() {
		kind = own
	}
	if kind == nil {
		return nil, fmt.Errorf("policy loss %q: %w", s.Kind, nodes.ErrProtocol)
	}
	value := reflect.New(kind)
	if kind.NumField() > 0 {
		if err := gob.NewDecoder(bytes.NewReader(s.Fields)).DecodeValue(value); err != nil {
			return nil, fmt.Errorf("policy loss %s: %w", s.Kind, err)
		}
	}
	l := value.Elem().Interface().(loss.Policy)
	d, ok := l.(loss.Distill)
	if !ok || s.Inner == nil {
		return l, nil
	}
	var err error
	d.Policy, err = s.Inner.Policy()
	return d, err
}
