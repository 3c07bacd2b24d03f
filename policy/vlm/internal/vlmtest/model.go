package vlmtest

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Learner is a *vlm.Model. Package vlm's own tests use this package, which therefore cannot import it.
type Learner interface {
	policy.Learner
	Restore(ctx context.Context, dir string) error
	Close() error
}

// Model is a model with its parts.
type Model struct {
	Learner
	Cfg     *model.Config
	Text    *generate.Encoder
	Devices []*device.Device
	Dev     *device.Device // the first of them
	Net     *net.Net
	Sets    *learn.Sets
	Gen     *generate.Generator
}

// Of returns a model with its parts, which package vlm keeps to itself.
func Of(m Learner) *Model {
	out := &Model{Learner: m}
	parts := reflect.ValueOf(out).Elem()
	for i := 1; i < parts.NumField(); i++ {
		parts.Field(i).Set(Field(m, strings.ToLower(parts.Type().Field(i).Name)))
	}
	return out
}

// Field is a field of a struct, which may be unexported.
func Field(of any, name string) reflect.Value {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// Saved returns the folder of a checkpoint.
func (m *Model) Saved(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, m.Save(t.Context(), dir))
	return dir
}
