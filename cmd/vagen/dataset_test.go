package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

const lakes = "envs:\n  - {name: FrozenLake, n_envs: 20, seed: [1, 20, 1], split: train, config: {size: 4}}\n  - {name: Sokoban, n_envs: 2, seed_list: [5, 5]}\n"

func TestDatasetsAreBuiltAndShown(t *testing.T) {
	in, out := testkit.File(t, "a.yaml", lakes), filepath.Join(t.TempDir(), "a.parquet")
	require.Equal(t, "22 episodes in "+out+"\n", succeed(t, "dataset", "build", in, out))
	for _, path := range []string{in, out} {
		kinds := decoded[[]kindOf](t, "dataset", "show", path, "--json")
		require.Equal(t, []kindOf{
			{Env: "frozenlake", Source: "default", Split: "train", Episodes: 20, Seeds: 20, Low: 1, High: 20},
			{Env: "sokoban", Source: "default", Split: "default", Episodes: 2, Seeds: 1, Low: 5, High: 5},
		}, kinds)
		require.Regexp(t, `frozenlake +default +train +20 +20 +1 +20\n`, succeed(t, "dataset", "show", path))
		all := decoded[[]shown](t, "dataset", "show", path, "--episodes", "--json")
		require.Len(t, all, 22)
		require.Equal(t, int64(5), all[21].Seed)
		require.Regexp(t, `(?m)^sokoban +5 +default`, succeed(t, "dataset", "show", path, "--episodes"))
	}
}

func TestLegacySplitsCanBeDisjoint(t *testing.T) {
	in := testkit.File(t, "env_config.yaml", "env1: {env_name: frozenlake, train_size: 30, test_size: 10}\n")
	dir := t.TempDir()
	train, test := filepath.Join(dir, "train.parquet"), filepath.Join(dir, "test.parquet")
	succeed(t, "dataset", "build", in, train)
	fail(t, "datasets overlap", "dataset", "build", in, test, "--split", "test", "--against", train)
	require.NoFileExists(t, test)
	succeed(t, "dataset", "build", in, train, "--separate", "--force")
	succeed(t, "dataset", "build", in, test, "--separate", "--split", "test", "--against", train)
	prints(t, "frozenlake", "dataset", "show", test, "--against", train)
}

func TestInvalidDatasetsAreRefused(t *testing.T) {
	in := testkit.File(t, "a.yaml", "envs:\n  - {name: FrozenLak, n_envs: 0, seeds: 3}\n")
	errs := refuse(t, "line 2: envs[0]: ", "dataset", "show", in)
	require.Contains(t, errs, `did you mean "seed"?`)
	refuse(t, `did you mean "frozenlake"?`, "dataset", "show", testkit.File(t, "a.yaml",
		"envs: [{name: FrozenLak, n_envs: 1}]"))
	refuse(t, "none.yaml", "dataset", "show", "none.yaml")
	refuse(t, "does not end in .parquet", "dataset", "build", in, "a.csv")
	refuse(t, `--split is "tset", must be train or test`, "dataset", "show", in, "--split", "tset")
	refuse(t, "FILE.yaml FILE.parquet", "dataset", "build", in)
	list, legacy := testkit.File(t, "a.yaml", lakes), testkit.File(t, "b.yaml",
		"env1: {env_name: frozenlake, test_size: 2}\n")
	for _, flag := range []string{"--separate", "--split=test"} {
		refuse(t, list+" is no legacy file", "dataset", "show", list, flag)
		succeed(t, "dataset", "show", list, flag, "--against", legacy)
	}
	refuse(t, legacy+" is no list of environments", "dataset", "show", legacy, "--base-seed", "3")
	succeed(t, "dataset", "show", list, "--base-seed", "3")
	mine := testkit.File(t, "a.yaml", "envs: [{name: Mine, n_envs: 1}]")
	refuse(t, `"Mine" is unknown; known are agent, blackjack`, "dataset", "show", mine)
	prints(t, "agent", "dataset", "show", testkit.File(t, "a.yaml", "envs: [{name: agent, n_envs: 1}]"))
	prints(t, "Mine", "dataset", "show", mine, "--any-env")
}

// TestDatasetsReplaceFilesOnlyWithForce, and contain no seed that environments refuse.
func TestDatasetsReplaceFilesOnlyWithForce(t *testing.T) {
	in, out := testkit.File(t, "a.yaml", lakes), testkit.File(t, "a.parquet", "precious")
	refuse(t, out+" exists; --force replaces it", "dataset", "build", in, out)
	require.Equal(t, "precious", testkit.Text(t, out))
	prints(t, "22 episodes in ", "dataset", "build", in, out, "--force")
	before := testkit.Text(t, out)

	negative := testkit.File(t, "b.yaml", "envs:\n  - {name: FrozenLake, n_envs: 2, seed_list: [4, -3]}\n")
	refuse(t, negative+": seed of episode 1 (FrozenLake) is -3, must not be negative", "dataset", "build", negative,
		out, "--force")
	require.Equal(t, before, testkit.Text(t, out))
}
