// Package modeltest opens models for tests of their parts.
package modeltest

import (
	"cmp"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

type (
	// Options are those of a model, by default on pure Go, with micro-batches that tiny rows fill.
	Options = vlm.Options
	// LoRA are settings of adapters.
	LoRA = vlm.LoRA
)

// Adapters are on maps of every kind, in the vision tower too.
func Adapters() *LoRA {
	return &LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"}}
}

// New opens the model of a new folder.
func New(t testing.TB, family model.Family, o Options) *vlmtest.Model {
	t.Helper()
	return Open(t, vlmtest.Folder(t, family, nil), o)
}

// Open opens a folder until the test ends.
func Open(t testing.TB, dir string, o Options) *vlmtest.Model {
	t.Helper()
	m, err := TryOpen(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// TryOpen opens a folder, on one of several ranks when all of them have opened it.
func TryOpen(ctx context.Context, dir string, o Options) (*vlmtest.Model, error) {
	o.Backend = cmp.Or(o.Backend, backend.Go)
	o.MicroTokens, o.HeadTokens = cmp.Or(o.MicroTokens, 128), cmp.Or(o.HeadTokens, 64)
	m, err := vlm.Open(ctx, dir, o)
	if err == nil && o.Nodes.Count > 1 {
		err = m.Connect(ctx)
	}
	if err != nil {
		return nil, err
	}
	return vlmtest.Of(m), nil
}
