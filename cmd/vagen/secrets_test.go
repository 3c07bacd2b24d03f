package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/rollout/store"
)

// canary is the secret for all services of these tests.
const canary = "canary-7f3a"

// guarded serves FrozenLake in both protocols to clients with the key. It returns its
// address.
func guarded(t *testing.T) string {
	t.Helper()
	r := builtin.Registry()
	o := remote.DefaultServerOptions()
	o.Lite = func(config map[string]any) (env.Env, error) {
		if config["api_key"] != canary || fmt.Sprint(config["headers"]) != "map[X-Own:"+canary+"]" {
			return nil, errors.New("the secrets of the options did not arrive")
		}
		delete(config, "api_key")
		delete(config, "headers")
		return r.New("frozenlake", config)
	}
	o.Legacy, o.APIKey = r, canary
	s, err := remote.NewServer(o)
	require.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, s.Close(t.Context()))
	})
	return strings.TrimPrefix(web.URL, "http://")
}

// tracking starts an MLflow server that records its requests.
func tracking(t *testing.T) (sent func() string) {
	t.Helper()
	var mu sync.Mutex
	var all strings.Builder
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&all, r.URL, string(body))
		fmt.Fprint(w, `{"experiment": {"experiment_id": "1"}, "run": {"info": {"run_id": "r"}, "data": {}}}`)
	}))
	t.Cleanup(web.Close)
	t.Setenv("MLFLOW_TRACKING_URI", strings.Replace(web.URL, "http://", "http://me:"+canary+"@", 1))
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// requireNoSecret checks that no file of a run contains the canary, decoded tables
// included.
func requireNoSecret(t *testing.T, dirs ...string) {
	t.Helper()
	tables := 0
	for _, dir := range dirs {
		for name, text := range leavings(t, dir) {
			require.False(t, strings.Contains(text, canary), name)
			if filepath.Ext(name) != ".parquet" {
				continue
			}
			tables++
			episodes, err := store.Load(filepath.Join(dir, name))
			require.NoError(t, err)
			for _, e := range episodes { // a table may be compressed
				require.NotContains(t, fmt.Sprint(e.Trajectory.Config, e.Trajectory.Err), canary, name)
				require.Contains(t, fmt.Sprint(e.Trajectory.Config), "REDACTED", name)
			}
		}
	}
	require.Positive(t, tables)
}

// TestNoArtefactOfARunContainsASecret: tokens and passwords, wherever they are set, are
// in no file, log or message of a run. The run can still be resumed and replayed.
func TestNoArtefactOfARunContainsASecret(t *testing.T) {
	host := guarded(t)
	options := fmt.Sprintf(`{base_urls: ["http://:%s@%s"], token: %s, api_key: %s, headers: {X-Own: %s}, render_mode: text, prompt: brief, size: 2}`, canary, host, canary, canary, canary)
	file := testkit.File(t, "envs.yaml", "envs:\n  - {name: remote, n_envs: 4, seed: [1, 100, 1], config: "+
		options+"}\n")
	for name, with := range map[string]struct{ options, secrets []string }{
		"options of an environment": {[]string{"env.name=remote", "rollout_manager.base_url=http://user:" + canary + "@h:1"},
			[]string{"env.config=" + options, "rollout_manager.base_url=http://user:" + canary + "-new@h:1"}},
		"a file of environments": {[]string{"env.name=''", "data.train_files=" + file, "data.val_files=" + file}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config, out := setup(t)
			sent := tracking(t)
			episodes, checks := filepath.Join(t.TempDir(), "episodes"), filepath.Join(t.TempDir(), "checks")
			args := append([]string{"train", config, "--log", "debug", "--out", out, "trainer.total_training_steps=2",
				"trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=null",
				"trainer.logger=[console, jsonl, tensorboard, mlflow]", "run.async=true", "trainer.rollout_data_dir=" + episodes,
				"trainer.validation_data_dir=" + checks}, with.options...)
			all := append(args, with.secrets...)
			said := func(args ...string) (int, string) {
				t.Helper()
				code, text, errs := launchRun(t, "", args...)
				require.NotContains(t, text+errs, canary)
				return code, text + errs
			}
			code, text := said(all...)
			require.Equal(t, cli.OK, code, text)
			requireNoSecret(t, out, episodes, checks)
			require.Contains(t, sent(), "trainer.project_name", "parameters were sent")
			require.NotContains(t, sent(), canary)

			require.NoError(t, os.RemoveAll(filepath.Join(out, "checkpoints", "step_2")))
			again := append([]string{}, all...)
			if len(with.secrets) > 0 {
				again = append(again, "rollout_manager.base_url=http://user:"+canary+"-rotated@h:1")
			}
			code, text = said(again...)
			require.Equal(t, cli.OK, code, text)
			require.Contains(t, text, "after step 1\n", "another secret is not a configuration change")
			requireNoSecret(t, out, episodes, checks)

			replay := []string{"replay", out, "--step", "1", "--log", "debug"}
			if len(with.secrets) > 0 {
				code, text = said(replay...)
				require.NotEqual(t, cli.OK, code)
				require.Contains(t, text, "env.config.token")
				require.Contains(t, text, "set it again with env.config.token=")
				code, text = said(append(replay, append(with.secrets, "algorithm.gamma=0.5")...)...)
				require.NotEqual(t, cli.OK, code)
				require.Contains(t, text, "algorithm.gamma: 1 → 0.5")
			}
			code, text = said(append(replay, with.secrets...)...)
			require.Equal(t, cli.OK, code, text)
			require.Contains(t, text, "everything equals the record")
		})
	}
}

// TestASecretIsNotShownWhenItIsRefused, nor if the service does not respond.
func TestASecretIsNotShownWhenItIsRefused(t *testing.T) {
	config, out := setup(t)
	require.NotContains(t, refuse(t, "", "train", config, "rollout_manager.use_service=true",
		"rollout_manager.base_url=http://user:"+canary+"/x@host"), canary)
	for _, url := range []string{"http://user:" + canary + "@127.0.0.1:1", "http://user:" + canary + "@" + guarded(t) +
		"/none"} {
		for _, args := range [][]string{
			{"env.name=remote", "env.config={base_urls: [\"" + url + "\"], token: " + canary +
				"-wrong, retries: 0, timeout: 2}"},
			{"rollout_manager.use_service=true", "rollout_manager.timeout=2", "rollout_manager.base_url=" + url,
				"env.config={retries: 0}"},
		} {
			code, text, errs := launchRun(t, "", append([]string{"train", config, "--log", "debug", "--out", out}, args...)...)
			require.NotEqual(t, cli.OK, code)
			require.NotContains(t, text+errs, canary)
			require.NoDirExists(t, out)
		}
	}
}
