package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
)

func TestRegistryMakesWhatItWasGiven(t *testing.T) {
	var r env.Registry
	make := func(config map[string]any) (env.Env, error) {
		return &counter{seed: int64(config["seed"].(int))}, nil
	}
	require.NoError(t, r.Register("counter", make))
	require.NoError(t, r.Register("abacus", make))
	require.Equal(t, []string{"abacus", "counter"}, r.Names())
	e, err := r.New("counter", map[string]any{"seed": 5})
	require.NoError(t, err)
	require.Equal(t, int64(5), e.(*counter).seed)

	require.ErrorIs(t, r.Register("counter", make), env.ErrDuplicate)
	require.Error(t, r.Register("", make))
	require.Error(t, r.Register("nothing", nil))
}

// TestAFactoryThatReturnsNothingIsAnError: New returns it, not a nil environment.
func TestAFactoryThatReturnsNothingIsAnError(t *testing.T) {
	var r env.Registry
	require.NoError(t, r.Register("none", func(map[string]any) (env.Env, error) { return nil, nil }))
	_, err := r.New("none", nil)
	require.ErrorIs(t, err, env.ErrNone)
}

func TestRegistryNamesTheNearestEnvironment(t *testing.T) {
	var r env.Registry
	_, err := r.New("lake", nil)
	require.ErrorIs(t, err, env.ErrUnknown)
	require.NoError(t, r.Register("frozenlake", func(map[string]any) (env.Env, error) { return nil, env.ErrOption }))
	_, err = r.New("frozen_lake", nil)
	testkit.Error(t, err, env.ErrUnknown, `did you mean "frozenlake"?`)
	_, err = r.New("frozenlake", nil)
	testkit.Error(t, err, env.ErrOption, "frozenlake")
}
