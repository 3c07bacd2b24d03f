package learn

import (
	"context"
	"encoding/binary"
	"fmt"

	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/weights"
)

// SendState sends weights and moments to a node.
func (l *Learner) SendState(ctx context.Context, to *nodes.Link) error {
	steps := int64(-1) // no moments
	if l.Adam != nil {
		steps = int64(l.Adam.Steps)
	}
	if err := to.Send(ctx, binary.LittleEndian.AppendUint64(nil, uint64(steps))); err != nil {
		return err
	}
	send := func(_ model.Stored, x []float32) error { return to.SendFloats(ctx, x) }
	if err := l.Weights.Each(l.stored, send); err != nil { // as ReceiveState reads them
		return err
	}
	if l.Adam == nil {
		return nil
	}
	if err := l.Adam.M.Each(nil, send); err != nil {
		return err
	}
	return l.Adam.V.Each(nil, send)
}

// ReceiveState replaces weights and moments by those that SendState sends.
func (l *Learner) ReceiveState(ctx context.Context, from *nodes.Link) error {
	raw, err := from.Receive(ctx, 8)
	if err != nil {
		return err
	}
	if len(raw) != 8 {
		return fmt.Errorf("number of steps has %d bytes: %w", len(raw), nodes.ErrProtocol)
	}
	steps := int64(binary.LittleEndian.Uint64(raw))
	moments := func(_ model.Param, _ model.Stored, dst []float32) error {
		return from.ReceiveFloats(ctx, dst)
	}
	return l.replace(int(steps), func(_ model.Stored, x []float32) ([]float32, error) {
		return x, from.ReceiveFloats(ctx, x)
	}, moments, moments)
}

// replace replaces the state that checkpoints contain by new values and moments. If steps is negative, there are no
// moments.
func (l *Learner) replace(
	steps int, values func(part model.Stored, old []float32) ([]float32, error), m, v weights.Source,
) error {
	if err := l.Weights.Replace(l.stored, values); err != nil {
		return err
	}
	if err := l.spread(l.stored); err != nil {
		return err
	}
	l.Adam.Free()
	l.Adam = nil
	if steps < 0 {
		return nil
	}
	var err error
	l.Adam, err = l.newAdam(steps, m, v)
	return err
}
