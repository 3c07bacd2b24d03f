package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/reward/judge"
	"vagen/train/config"
	"vagen/train/queue"
)

const secret = "sk-5f0c1a9b77d2"

// hostOf is a worker that has read the setup of a run.
func hostOf(t *testing.T, c config.Config, state *judge.StateReward, keys Keys) (*host, error) {
	t.Helper()
	raw, err := Setup(&c, state)
	require.NoError(t, err)
	h := &host{opts: &Options{Keys: keys}}
	return h, h.read(raw)
}

// TestAWorkerSendsNoKeyOfServersThatItWasNotTold: the run, which whoever controls the queue sends, names the
// variable and the addresses.
func TestAWorkerSendsNoKeyOfServersThatItWasNotTold(t *testing.T) {
	t.Setenv("SECRET_KEY", secret)
	c := config.Default()
	c.Agent.Rollout.Name, c.Agent.Rollout.Engine.KeyEnv = "vllm", "SECRET_KEY"
	c.Agent.Rollout.Engine.Addresses = []string{"http://gpu1:8000", "http://other:8000/v1"}
	for about, test := range map[string]struct {
		keys Keys
		want string
	}{
		"nothing": {nil, "SECRET_KEY for http://gpu1:8000, but this worker may send it nowhere"},
		"one of two": {Keys{"SECRET_KEY": {"http://GPU1:8000/"}},
			"SECRET_KEY for http://other:8000/v1, but this worker may send it only to http://GPU1:8000/"},
		"another variable": {Keys{"OTHER": {"http://gpu1:8000", "http://other:8000"}},
			"SECRET_KEY for http://gpu1:8000, but this worker may send it nowhere"},
	} {
		h, err := hostOf(t, c, nil, test.keys)
		require.NoError(t, err, about)
		_, err = h.policy(t.Context(), nil)
		const says = "actor_rollout_ref.rollout.engine.api_key_env of the run asks for the environment variable "
		require.ErrorContains(t, err, says+test.want, about)
		require.ErrorContains(t, err, "--allow-key SECRET_KEY=http://", about)
	}
	h, err := hostOf(t, c, nil, Keys{"SECRET_KEY": {"http://gpu1:8000", "http://other:8000"}})
	require.NoError(t, err)
	require.NoError(t, h.allowEngine())
}

// TestAWorkerSendsNoKeyOfAJudgeThatItWasNotTold: neither for the block of the data files, nor for that of an
// episode, nor the key of OpenAI, which a block without a variable has.
func TestAWorkerSendsNoKeyOfAJudgeThatItWasNotTold(t *testing.T) {
	t.Setenv("SECRET_KEY", secret)
	t.Setenv("OPENAI_API_KEY", secret)
	c := config.Default()
	c.Env.Name = "frozenlake"
	for _, test := range []struct{ variable, key, address string }{
		{"SECRET_KEY", "SECRET_KEY", "http://judge:1/v1"}, {"", "OPENAI_API_KEY", "https://api.openai.com/v1"},
	} {
		block := judge.DefaultStateReward()
		block.JudgeURL, block.JudgeModel = test.address, "m"
		block.Service.KeyEnv = test.variable
		block.Estimation = judge.Section{Enable: true, Reward: 0.5}
		for _, keys := range []Keys{nil, {test.key: {"http://judge:2"}}, {"OTHER": {test.address}}} {
			_, err := hostOf(t, c, &block, keys)
			require.ErrorContains(t, err, test.key+" for "+test.address+", but this worker may send it", "%v", keys)
			require.NotContains(t, err.Error(), secret)
			h, err := hostOf(t, c, nil, keys)
			require.NoError(t, err)
			_, err = h.envs.New("frozenlake", map[string]any{"prompt_format": "wm", judge.Key: block.Tree()})
			require.ErrorContains(t, err, test.key+" for "+test.address+", but this worker may send it", "%v", keys)
		}
		keys := Keys{test.key: {test.address}}
		h, err := hostOf(t, c, &block, keys)
		require.NoError(t, err)
		_, err = h.envs.New("frozenlake", map[string]any{"prompt_format": "wm", judge.Key: block.Tree()})
		require.NoError(t, err)
	}
}

// TestKeysAreVariablesWithAddresses: a variable without an address, and an address without a scheme, are errors.
func TestKeysAreVariablesWithAddresses(t *testing.T) {
	var k Keys
	require.NoError(t, k.Set("A=http://a:1,https://b"))
	require.NoError(t, k.Set("A=http://c"))
	require.NoError(t, k.Set("B=http://a:1"))
	require.Equal(t, Keys{"A": {"http://a:1", "https://b", "http://c"}, "B": {"http://a:1"}}, k)
	for _, bad := range []string{
		"", "A", "A=", "=http://a", "A B=http://a", "A=a:1", "A=http://u:geheim@h", "A=ftp://a", "A=http://a,",
	} {
		err := k.Set(bad)
		require.ErrorIs(t, err, queue.ErrOption, bad)
		require.NotContains(t, err.Error(), "geheim")
	}
	require.Len(t, k, 2)
	require.ErrorIs(t, Work(t.Context(), Options{Keys: Keys{"A": {"a"}}}), queue.ErrOption)
}
