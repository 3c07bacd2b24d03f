package vlmtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/opened"
)

// Learner is a *vlm.Model.
type Learner interface {
	policy.Learner
	Restore(ctx context.Context, dir string) error
	Close() error
}

// Model is a model with its parts.
type Model struct {
	opened.Model
	Learner
}

// Of returns a model with its parts.
func Of(m Learner) *Model { return &Model{opened.Parts(m), m} }

// Saved returns the folder of a checkpoint.
func (m *Model) Saved(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, m.Save(t.Context(), dir))
	return dir
}
