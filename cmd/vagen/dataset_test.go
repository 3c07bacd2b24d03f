package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// file writes a text to a file of a temporary folder.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

const lakes = "envs:\n  - {name: FrozenLake, n_envs: 20, seed: [1, 20, 1], split: train, config: {size: 4}}\n  - {name: Sokoban, n_envs: 2, seed_list: [5, 5]}\n"

func TestDatasetsAreBuiltAndShown(t *testing.T) {
	in, out := file(t, "a.yaml", lakes), filepath.Join(t.TempDir(), "a.parquet")
	require.Equal(t, "22 episodes in "+out+"\n", succeed(t, "dataset", "build", in, out))
	for _, path := range []string{in, out} {
		var kinds []kindOf
		require.NoError(t, json.Unmarshal([]byte(succeed(t, "dataset", "show", path, "--json")), &kinds))
		require.Equal(t, []kindOf{
			{Env: "frozenlake", Source: "default", Split: "train", Episodes: 20, Seeds: 20, Low: 1, High: 20},
			{Env: "sokoban", Source: "default", Split: "default", Episodes: 2, Seeds: 1, Low: 5, High: 5},
		}, kinds)
		require.Regexp(t, `frozenlake +default +train +20 +20 +1 +20\n`, succeed(t, "dataset", "show", path))
		var all []shown
		require.NoError(t, json.Unmarshal([]byte(succeed(t, "dataset", "show", path, "--episodes", "--json")), &all))
		require.Len(t, all, 22)
		require.Equal(t, int64(5), all[21].Seed)
		require.Regexp(t, `(?m)^sokoban +5 +default`, succeed(t, "dataset", "show", path, "--episodes"))
	}
}

func TestLegacySplitsCanBeDisjoint(t *testing.T) {
	in := file(t, "env_config.yaml", "env1: {env_name: frozenlake, train_size: 30, test_size: 10}\n")
	dir := t.TempDir()
	train, test := filepath.Join(dir, "train.parquet"), filepath.Join(dir, "test.parquet")
	succeed(t, "dataset", "build", in, train)
	require.Contains(t, fail(t, "dataset", "build", in, test, "--split", "test", "--against", train),
		"datasets overlap")
	require.NoFileExists(t, test)
	succeed(t, "dataset", "build", in, train, "--separate", "--force")
	succeed(t, "dataset", "build", in, test, "--separate", "--split", "test", "--against", train)
	require.Contains(t, succeed(t, "dataset", "show", test, "--against", train), "frozenlake")
}

func TestInvalidDatasetsAreRefused(t *testing.T) {
	in := file(t, "a.yaml", "envs:\n  - {name: FrozenLak, n_envs: 0, seeds: 3}\n")
	errs := refuse(t, "dataset", "show", in)
	require.Contains(t, errs, "line 2: envs[0]: ")
	require.Contains(t, errs, `did you mean "seed"?`)
	require.Contains(t, refuse(t, "dataset", "show", file(t, "a.yaml", "envs: [{name: FrozenLak, n_envs: 1}]")),
		`did you mean "frozenlake"?`)
	require.Contains(t, refuse(t, "dataset", "show", "none.yaml"), "none.yaml")
	require.Contains(t, refuse(t, "dataset", "build", in, "a.csv"), "does not end in .parquet")
	require.Contains(t, refuse(t, "dataset", "show", in, "--split", "tset"), `--split is "tset", must be train or test`)
	require.Contains(t, refuse(t, "dataset", "build", in), "FILE.yaml FILE.parquet")
	list, legacy := file(t, "a.yaml", lakes), file(t, "b.yaml", "env1: {env_name: frozenlake, test_size: 2}\n")
	for _, flag := range []string{"--separate", "--split=test"} {
		require.Contains(t, refuse(t, "dataset", "show", list, flag), list+" is no legacy file")
		succeed(t, "dataset", "show", list, flag, "--against", legacy)
	}
	require.Contains(t, refuse(t, "dataset", "show", legacy, "--base-seed", "3"), legacy+" is no list of environments")
	succeed(t, "dataset", "show", list, "--base-seed", "3")
	mine := file(t, "a.yaml", "envs: [{name: Mine, n_envs: 1}]")
	require.Contains(t, refuse(t, "dataset", "show", mine), `"Mine" is unknown; known are agent, blackjack`)
	require.Contains(t, succeed(t, "dataset", "show", file(t, "a.yaml", "envs: [{name: agent, n_envs: 1}]")), "agent")
	require.Contains(t, succeed(t, "dataset", "show", mine, "--any-env"), "Mine")
}

// TestDatasetsReplaceFilesOnlyWithForce, and contain no seed that environments refuse.
func TestDatasetsReplaceFilesOnlyWithForce(t *testing.T) {
	in, out := file(t, "a.yaml", lakes), file(t, "a.parquet", "precious")
	require.Contains(t, refuse(t, "dataset", "build", in, out), out+" exists; --force replaces it")
	require.Equal(t, "precious", contents(t, out))
	require.Contains(t, succeed(t, "dataset", "build", in, out, "--force"), "22 episodes in ")
	before := contents(t, out)

	negative := file(t, "b.yaml", "envs:\n  - {name: FrozenLake, n_envs: 2, seed_list: [4, -3]}\n")
	errs := refuse(t, "dataset", "build", negative, out, "--force")
	require.Contains(t, errs, negative+": seed of episode 1 (FrozenLake) is -3, must not be negative")
	require.Equal(t, before, contents(t, out))
}
