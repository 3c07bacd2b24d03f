package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/train/config"
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
	require.NotRegexp(t, `map\[|<nil>|0x[0-9a-f]{6}`, succeed(t, "config", "explain"), "defaults are shown as in a file")
	var keys []config.Setting
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

// TestConfigurationsOfGenerationsAreImported: the output has the settings of the input under their
// names here, and system has no part in it; remarks are not part of the output.
func TestConfigurationsOfGenerationsAreImported(t *testing.T) {
	const script = "system: lite\ntrainer: {concat_multi_turn: true, nnodes: 1}\nalgorithm: {adv_estimator: gae}\n"
	lite := []string{
		"config", "import", file(t, "c.yaml", script),
		"env=sokoban", "actor_rollout_ref.actor.ppo_mini_batch_size=32",
	}
	code, out, errs := launchRun(t, "", lite...)
	require.Equal(t, cli.OK, code)
	require.True(t, strings.HasPrefix(out, "system: null\n"))
	require.Contains(t, out, "\n  adv_estimator: lite_gae\n")
	require.Contains(t, out, "\n    clip_ratio_c: 3.0\n")
	require.NotContains(t, out, "concat_multi_turn")
	require.Contains(t, errs, "no effect: trainer.nnodes: ")
	native := file(t, "native.yaml", out)
	require.Equal(t, native+" is valid\n", succeed(t, "config", "check", native))
	require.Equal(t, out, succeed(t, "config", "show", native))
	lite[1] = "show"
	require.Equal(t, strings.Replace(out, "system: null", "system: lite", 1), succeed(t, lite...))
	typo := refuse(t, "config", "import", "env=sokoban", "algorithm.gama=1")
	require.Contains(t, typo, `did you mean "algorithm.gamma"?`)
	require.Contains(t, refuse(t, "config", "import", "env=sokoban", "algorithm.gamma=2"), "algorithm.gamma is 2")
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
		errs := refuse(t, append(preset, more...)...)
		require.Contains(t, errs, want)
		require.Contains(t, errs, "(override 2)")
	}
	path := file(t, "c.yaml", "env:\n  name: frozenlake\n  config:\n    p: 7\n")
	require.Regexp(t, `env.config.p: .* \(.*c.yaml: line 3\)`, refuse(t, "config", "check", path))
	require.Contains(t, refuse(t, "config", "check", "env=frozenlik"), `unknown name, did you mean "frozenlake"?`)

	cache := t.TempDir() + "/answers"
	t.Setenv("NO_SUCH_KEY", "")
	require.Contains(t, succeed(t, append(preset, on, "env.config.state_reward.judge_base_url=http://127.0.0.1:1/v1",
		"env.config.state_reward.judge_model=m",
		"env.config.state_reward.judge.key_env=NO_SUCH_KEY", "env.config.state_reward.judge.cache="+cache)...), "is valid")
	require.NoDirExists(t, cache)
	require.Contains(t, succeed(t, "config", "check", "env=remote", "env.config.base_urls=http://127.0.0.1:1"), "is valid")
	require.Contains(t, succeed(t, "config", "check", "env=own", "rollout_manager.use_service=true"), "is valid",
		"the service knows its environments")
	require.Contains(t, succeed(t, "config", "check", "trainer.stage=sft", "sft.train_files=[x.jsonl]", "env=own"),
		"is valid", "no environment is played")
	require.Contains(t, refuse(t, "config", "check", "trainer.stage=sft", "sft.lessons.teacher=shortest_path",
		"env=frozenlake", "env.config.siz=3"), "env.config.siz")
}

// TestOptionsInDataFilesAreChecked on top of those of the configuration.
func TestOptionsInDataFilesAreChecked(t *testing.T) {
	check := func(config string) []string {
		path := file(t, "envs.yaml", "envs: [{name: FrozenLake, n_envs: 2, seed_list: [7, 8], config: "+config+"}]\n")
		return []string{"config", "check", "data.train_files=" + path, "data.val_files=" + path, "data.train_batch_size=2",
			"actor_rollout_ref.actor.ppo_mini_batch_size=2"}
	}
	require.Contains(t, succeed(t, check("{size: 2}")...), "this is valid")
	require.Contains(t, refuse(t, check("{siz: 2}")...), `option "siz"`)
	require.Contains(t, refuse(t, append(check("{size: 2}"), "env.defaults.frozenlake.p=7")...), `option "p"`)
	require.Contains(t, refuse(t, append(check("{size: 2}"), "data.train_batch_size=3")...),
		"data.train_files have 2 episodes")
	require.Contains(t, succeed(t, "config", "check", "data.train_files=none.yaml", "data.val_files=none.yaml"),
		"warning: data.train_files: the options of its environments were not checked: stat none.yaml")
}
