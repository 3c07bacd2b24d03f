package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// learn accumulates gradients over the packs of one step. The caller frees them.
func (l *learner) learn(ctx context.Context, packs []*pack, h *model.Head, loss *model.Loss, cols func(*pack) columns, hyper []float32, chunk int) (*gradients, []float64, error) {
	return l.learnFrom(ctx, nil, packs, h, loss, cols, hyper, chunk)
}

// gather builds the loss's columns of a pack from a batch.
func gather(b *policy.Batch) func(*pack) columns { return numbersOf(b).columns }
