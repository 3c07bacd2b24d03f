package run

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/remote"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	environments "vagen/train/envs"
)

// hosted serves FrozenLake under a name, and returns the service and a file with levels of it.
func hosted(t *testing.T, name string) (*httptest.Server, string) {
	var legacy env.Registry
	lake := remote.WithDefaults(frozenlake.FromConfig, map[string]any{"rules": "legacy"})
	require.NoError(t, legacy.Register(name, lake))
	o := remote.DefaultServerOptions()
	o.Legacy = &legacy
	server, err := remote.NewServer(o)
	require.NoError(t, err)
	h := httptest.NewServer(server)
	t.Cleanup(func() { h.Close(); _ = server.Close(t.Context()) })
	path := filepath.Join(t.TempDir(), "env_config.yaml")
	text := "env1:\n  env_name: " + name + "\n  env_config: {render_mode: text}\n  train_size: 4\n  test_size: 2\n"
	testkit.Write(t, path, text)
	return h, path
}

// checked opens the environments and levels of a configuration, and makes one environment.
func checked(t *testing.T, c *config.Config) (envs *env.Registry, l *train.Levels, err error) {
	if envs, err = environments.Open(c, slog.New(slog.DiscardHandler)); err != nil {
		return nil, nil, err
	}
	if l, err = openLevels(t.Context(), c, envs, slog.New(slog.DiscardHandler)); err == nil {
		_, err = preflightEnvs(t.Context(), c, l, envs, nil)
	}
	return envs, l, err
}

func TestEnvironmentsComeFromAServiceOnRequest(t *testing.T) {
	h, path := hosted(t, "frozenlake")
	c, err := config.Load("", "data.train_files="+path, "data.val_files="+path, "data.train_batch_size=2",
		"actor_rollout_ref.actor.ppo_mini_batch_size=2",
		"rollout_manager.use_service=True", "rollout_manager.base_url="+h.URL, "rollout_manager.timeout=20")
	require.NoError(t, err)
	envs, levels, err := checked(t, &c)
	require.NoError(t, err)
	first := levels.First()
	require.Equal(t, "legacy", first.Config["rules"], "the option is not sent to the service")
	require.Equal(t, 60, c.Trainer.Steps)

	h.Close()
	_, err = preflightEnvs(timeout(t), &c, levels, envs, nil)
	require.Error(t, err)
}

// TestAServiceMayHostEnvironmentsOfAnyName: an environment that this library does not
// have is requested under the name in the file or in env.name.
func TestAServiceMayHostEnvironmentsOfAnyName(t *testing.T) {
	h, path := hosted(t, "alfWorld")
	for _, from := range [][]string{
		{"data.train_files=" + path, "data.val_files=" + path},
		{"env.name=alfWorld", "env.config={render_mode: text}"},
	} {
		args := append(from, "data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=2",
			"rollout_manager.base_url="+h.URL, "rollout_manager.timeout=20")
		c, err := config.Load("", append(args, "rollout_manager.use_service=True")...)
		require.NoError(t, err)
		_, _, err = checked(t, &c)
		require.NoError(t, err)

		c.Rollout.UseService = false
		_, _, err = checked(t, &c)
		require.ErrorContains(t, err, "alfWorld", "without a service it is unknown")
	}
}

func TestAModelOfThisProcessJudgesUnlessWorkersPlay(t *testing.T) {
	dir := tinymodel.Create(t, vlm.Small(), nil, 1)
	check := func(more ...string) error {
		c, err := config.Load("", append([]string{"env.name=sokoban", "model.backend=go",
			"env.config={render_mode: text, prompt_format: wm, state_reward: {state_estimation: {enable: true, reward: 1}}}"},
			more...)...)
		require.NoError(t, err)
		envs, err := environments.Open(&c, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		_, err = makeEnv(&c, envs, rollout.Episode{Env: "sokoban", Config: c.Env.Config})
		_, err2 := CheckOptions(t.Context(), c, nil)
		require.Equal(t, err == nil, err2 == nil, "%v\n%v", err, err2)
		return errors.Join(err, envs.Close())
	}
	require.NoError(t, check("env.config.state_reward.judge.model="+dir))
	require.ErrorContains(t, check("env.config.state_reward.judge.model="+t.TempDir()),
		"not a folder with a model that can judge")
	require.ErrorContains(t, check("env.config.state_reward.judge.model="+dir, "run.queue=nats://127.0.0.1:1"),
		"workers load no judge")
}

func TestJudgesAreThoseOfTheFile(t *testing.T) {
	file := func(scorer string) string {
		path := testkit.File(t, "envs.yaml",
			"envs: [{name: Sokoban, n_envs: 2, config: {prompt_format: wm, state_reward: {state_estimation: {enable: true, reward: 0.5}, "+scorer+"}}}]")
		return path
	}
	for _, scorer := range []string{"scorer: exact", "judge_base_url: 'http://localhost:1/v1', judge_model: m"} {
		path := file(scorer)
		c, err := config.Load("", "data.train_files="+path, "data.val_files="+path, "data.train_batch_size=2",
			"actor_rollout_ref.actor.ppo_mini_batch_size=2")
		require.NoError(t, err)
		envs, _, err := checked(t, &c)
		require.NoError(t, err)
		c.Rollout.UseService = true
		_, err = openLevels(t.Context(), &c, envs, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "state rewards are computed by the service")
	}
}

// timeout is a context that ends before six attempts.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
