package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/train/config"
)

func TestConfigurationsAreShownWithEveryKey(t *testing.T) {
	in := testkit.File(t, "c.yaml", "algorithm:\n  gamma: 0.5\n")
	out := succeed(t, "config", "show", in, "algorithm.lam=0.25")
	require.Contains(t, out, "gamma: 0.5")
	again := testkit.File(t, "d.yaml", out)
	require.Equal(t, out, succeed(t, "config", "show", again), "the output is a valid configuration")
	values := decoded[map[string]any](t, "config", "show", "algorithm.lam=0.25", "--json")
	require.Equal(t, 0.25, values["algorithm.lam"])
	require.Equal(t, 1.0, values["algorithm.gamma"])
	refuse(t, `did you mean "algorithm.gamma"?`, "config", "show", "algorithm.gama=1")
	refuse(t, "none.yaml", "config", "show", "none.yaml")
}

func TestKeysAreExplained(t *testing.T) {
	prints(t, "discount per token", "config", "explain", "algorithm.gamma")
	prints(t, "critic.optim.lr", "config", "explain", "critic.optim")
	require.NotRegexp(t, `map\[|<nil>|0x[0-9a-f]{6}`, succeed(t, "config", "explain"), "defaults are shown as in a file")
	keys := decoded[[]config.Setting](t, "config", "explain", "--json")
	require.Greater(t, len(keys), 50)
	for _, k := range keys {
		require.NotEmpty(t, k.About, k.Key)
	}
	refuse(t, `did you mean "algorithm.gamma"?`, "config", "explain", "algorithm.gama")
}

func TestConfigurationsAreChecked(t *testing.T) {
	good := testkit.File(t, "c.yaml", "env: {name: frozenlake}\n")
	prints(t, "is valid", "config", "check", good)
	errs := refuse(t, "algorithm.gamma is 2", "config", "check", good, "algorithm.gamma=2", "data.train_batch_size=0")
	require.Contains(t, errs, "data.train_batch_size is 0")
}

// TestConfigurationsOfGenerationsAreImported: the output has the settings of the input under their
// names here, and system has no part in it; remarks are not part of the output.
func TestConfigurationsOfGenerationsAreImported(t *testing.T) {
	const script = "system: lite\ntrainer: {concat_multi_turn: true, nnodes: 1}\nalgorithm: {adv_estimator: gae}\n"
	lite := []string{
		"config", "import", testkit.File(t, "c.yaml", script),
		"env=sokoban", "actor_rollout_ref.actor.ppo_mini_batch_size=32",
	}
	code, out, errs := launchRun(t, "", lite...)
	require.Equal(t, cli.OK, code)
	require.True(t, strings.HasPrefix(out, "system: null\n"))
	require.Contains(t, out, "\n  adv_estimator: lite_gae\n")
	require.Contains(t, out, "\n    clip_ratio_c: 3.0\n")
	require.NotContains(t, out, "concat_multi_turn")
	require.Contains(t, errs, "no effect: trainer.nnodes: ")
	native := testkit.File(t, "native.yaml", out)
	require.Equal(t, native+" is valid\n", succeed(t, "config", "check", native))
	require.Equal(t, out, succeed(t, "config", "show", native))
	lite[1] = "show"
	require.Equal(t, strings.Replace(out, "system: null", "system: lite", 1), succeed(t, lite...))
	refuse(t, `did you mean "algorithm.gamma"?`, "config", "import", "env=sokoban", "algorithm.gama=1")
	refuse(t, "algorithm.gamma is 2", "config", "import", "env=sokoban", "algorithm.gamma=2")
}

// TestOptionsOfEnvironmentsAreChecked, composed of a preset, a file and overrides: errors name
// the key and where it was given. Neither a judge nor a service is asked, nothing is written,
// and no model is needed.
func TestOptionsOfEnvironmentsAreChecked(t *testing.T) {
	const on = "env.config.state_reward.state_estimation={enable: true, reward: 1}"
	preset := []string{"config", "check", "--preset", "vagen_full", "env=sokoban"}
	for want, more := range map[string][]string{
		`env.config.siz: env: sokoban: sokoban: option "siz"`:                     {"env.config.siz=3"},
		`env.config.prompts.first: env: sokoban: sokoban: option "prompts.first"`: {"env.config.prompts.first=walk"},
		`env.config.desc: env: sokoban: sokoban: option "desc[0]"`:                {"env.config.desc=[1]"},
		`env.config.state_reward.judge.timeout: env: sokoban: bad option: state_reward: j`: {
			"env.config.state_reward.judge.timeout=-1"},
		`env.config.state_reward.scorrer: env: sokoban: bad option: state_reward: unknown`: {
			"env.config.state_reward.scorrer=rules"},
	} {
		errs := refuse(t, want, append(preset, more...)...)
		require.Contains(t, errs, "(override 2)")
	}
	path := testkit.File(t, "c.yaml", "env:\n  name: frozenlake\n  config:\n    p: 7\n")
	require.Regexp(t, `env.config.p: .* \(.*c.yaml: line 3\)`, refuse(t, "", "config", "check", path))
	refuse(t, `unknown name, did you mean "frozenlake"?`, "config", "check", "env=frozenlik")

	cache := t.TempDir() + "/answers"
	t.Setenv("NO_SUCH_KEY", "")
	prints(t, "is valid", append(preset, on, "env.config.state_reward.judge_base_url=http://127.0.0.1:1/v1",
		"env.config.state_reward.judge_model=m",
		"env.config.state_reward.judge.key_env=NO_SUCH_KEY", "env.config.state_reward.judge.cache="+cache)...)
	require.NoDirExists(t, cache)
	prints(t, "is valid", "config", "check", "env=remote", "env.config.base_urls=http://127.0.0.1:1")
	require.Contains(t, succeed(t, "config", "check", "env=own", "rollout_manager.use_service=true"), "is valid",
		"the service knows its environments")
	require.Contains(t, succeed(t, "config", "check", "trainer.stage=sft", "sft.train_files=[x.jsonl]", "env=own"),
		"is valid", "no environment is played")
	refuse(t, "env.config.siz", "config", "check", "trainer.stage=sft", "sft.lessons.teacher=shortest_path",
		"env=frozenlake", "env.config.siz=3")
}

// TestOptionsInDataFilesAreChecked on top of those of the configuration.
func TestOptionsInDataFilesAreChecked(t *testing.T) {
	check := func(config string) []string {
		path := testkit.File(t, "envs.yaml",
			"envs: [{name: FrozenLake, n_envs: 2, seed_list: [7, 8], config: "+config+"}]\n")
		return []string{"config", "check", "data.train_files=" + path, "data.val_files=" + path, "data.train_batch_size=2",
			"actor_rollout_ref.actor.ppo_mini_batch_size=2"}
	}
	prints(t, "this is valid", check("{size: 2}")...)
	refuse(t, `option "siz"`, check("{siz: 2}")...)
	refuse(t, `option "p"`, append(check("{size: 2}"), "env.defaults.frozenlake.p=7")...)
	refuse(t, "data.train_files have 2 episodes", append(check("{size: 2}"), "data.train_batch_size=3")...)
	prints(t, "warning: data.train_files: the options of its environments were not checked: stat none.yaml", "config",
		"check", "data.train_files=none.yaml", "data.val_files=none.yaml")
}

// TestAFileMayBeInAFolderNamedAfterASetting: what has a slash before its = is no key.
func TestAFileMayBeInAFolderNamedAfterASetting(t *testing.T) {
	path, overrides := splitConfig([]string{"runs/lr=0.1/config.yaml", "env.name=sokoban"})
	require.Equal(t, "runs/lr=0.1/config.yaml", path)
	require.Equal(t, []string{"env.name=sokoban"}, overrides)
	path, overrides = splitConfig([]string{"model.path=a/b"})
	require.Empty(t, path)
	require.Equal(t, []string{"model.path=a/b"}, overrides)
}
