package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigurationsAreShownWithEveryKey(t *testing.T) {
	in := file(t, "c.yaml", "algorithm:\n  gamma: 0.5\n")
	out := succeed(t, "config", "show", in, "algorithm.lam=0.25")
	require.Contains(t, out, "gamma: 0.5")
	again := file(t, "d.yaml", out)
	require.Equal(t, out, succeed(t, "config", "show", again), "the output is a valid configuration")
	var values map[string]any
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "config", "show", "algorithm.lam=0.25", "--json")), &values))
	require.Equal(t, 0.25, values["algorithm.lam"])
	require.Equal(t, 1.0, values["algorithm.gamma"])
	require.Contains(t, refuse(t, "config", "show", "algorithm.gama=1"), `did you mean "algorithm.gamma"?`)
	require.Contains(t, refuse(t, "config", "show", "none.yaml"), "none.yaml")
}

func TestKeysAreExplained(t *testing.T) {
	require.Contains(t, succeed(t, "config", "explain", "algorithm.gamma"), "discount per token")
	require.Contains(t, succeed(t, "config", "explain", "critic.optim"), "critic.optim.lr")
	var keys []explained
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "config", "explain", "--json")), &keys))
	require.Greater(t, len(keys), 50)
	for _, k := range keys {
		require.NotEmpty(t, k.About, k.Key)
	}
	require.Contains(t, refuse(t, "config", "explain", "algorithm.gama"), `did you mean "algorithm.gamma"?`)
}

func TestConfigurationsAreChecked(t *testing.T) {
	good := file(t, "c.yaml", "env: {name: frozenlake}\n")
	require.Contains(t, succeed(t, "config", "check", good), "is valid")
	errs := refuse(t, "config", "check", good, "algorithm.gamma=2", "data.train_batch_size=0")
	require.Contains(t, errs, "algorithm.gamma is 2")
	require.Contains(t, errs, "data.train_batch_size is 0")
}
