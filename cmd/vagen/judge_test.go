package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
)

const labelledSet = "../../testdata/judge/labelled.json"

func TestJudgesAreMeasuredOnALabelledSet(t *testing.T) {
	e := decoded[judge.Evaluation](t, "judge", "eval", "--json", labelledSet)
	require.Greater(t, e.All.F1(), 0.9)
	prints(t, "negation", "judge", "eval", labelledSet)

	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer sesame", r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"[]"},"finish_reason":"stop"}]}`))
	}))
	defer service.Close()
	t.Setenv("JUDGE_KEY", "sesame")
	code, out, errs := launchRun(t, "", "judge", "eval", "--json", "--limit", "5", "--base-url", service.URL+"/v1",
		"--model", "m", "--key-env", "JUDGE_KEY", labelledSet)
	require.Equal(t, cli.OK, code, errs)
	e = judge.Evaluation{}
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	require.Equal(t, 5, e.All.Cases)
	require.Zero(t, e.All.Stated)
	require.NotContains(t, out+errs, "sesame")
}

// The judge of a run's configuration is measured with its own settings; answers are cached, and
// claims without one are counted.
func TestTheJudgeOfAConfigurationIsMeasured(t *testing.T) {
	t.Setenv("JUDGE_KEY", "sesame-open-now")
	n := 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; r.Header.Get("Authorization") != "Bearer sesame-open-now" || n == 2 {
			http.Error(w, "no, "+r.Header.Get("Authorization"), http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"[]"},"finish_reason":"stop"}]}`))
	}))
	defer service.Close()
	file := testkit.File(t, "run.yaml", `env: {name: sokoban, config: {prompt_format: wm, state_reward: {scorer: judge, judge_model: m, judge_base_url: "`+service.URL+`/v1",
  state_estimation: {enable: true, reward: 1}, judge: {key_env: JUDGE_KEY, concurrency: 1}}}}`)
	args := []string{"judge", "eval", "--json", "--limit", "5", "--config", file, labelledSet, "judge.cache=" +
		t.TempDir(), "judge.retries=0"}
	for _, want := range []client.Usage{{Claims: 5, Attempts: 5, Unscored: map[client.Cause]int{client.Refused: 1}},
		{Claims: 5, Cached: 4, Attempts: 1, Unscored: map[client.Cause]int{}}} {
		code, out, errs := launchRun(t, "", args...)
		require.Equal(t, cli.OK, code, errs)
		var e struct {
			All   judge.Quality
			Asked client.Usage
		}
		require.NoError(t, json.Unmarshal([]byte(out), &e))
		want.Waited = e.Asked.Waited
		require.Equal(t, want, e.Asked)
		require.Equal(t, want.Missing(), e.All.Unread)
		require.NotContains(t, out+errs, "sesame")
	}
	prints(t, `"asked":{"claims":0`, append(args, "scorer=rules")...)
	require.NotContains(t, refuse(t, "", append(args, "judge.key_env=sk-abcdef0123456789")...), "abcdef")
}

func TestJudgeEvalRefusesWhatItCannotRead(t *testing.T) {
	for _, args := range [][]string{{}, {"main.go"}, {"missing.json"}, {"--limit", "-1", labelledSet},
		{"--model", "m", labelledSet}, {"--key-env", "K", labelledSet}} {
		refuse(t, "", append([]string{"judge", "eval"}, args...)...)
	}
}

// TestAWrongBlockIsRefusedAlsoWhereTheCommandReplacesIt: the command enables the block and does
// not use the budget, but says what is wrong with their values.
func TestAWrongBlockIsRefusedAlsoWhereTheCommandReplacesIt(t *testing.T) {
	for set, want := range map[string]string{
		"judge.step_budget=.nan": "judge.step_budget is NaN",
		"judge.step_budget=-1":   "judge.step_budget is -1",
		"judge=[]":               "judge is []",
		"state_estimation=[1]":   "state_estimation is [1]",
	} {
		refuse(t, want, "judge", "eval", labelledSet, "scorer=rules", set)
	}
}

// TestAJudgeWithoutAUsableAnswerFails: nothing was measured. One usable answer is enough.
func TestAJudgeWithoutAUsableAnswerFails(t *testing.T) {
	none := map[client.Cause]int{client.Answer: 2, client.Timeout: 1}
	require.EqualError(
		t, answered(client.Usage{Claims: 3, Unscored: none}),
		"judge: none of 3 claims has a valid answer map[answer:2 timeout:1]",
	)
	require.NoError(t, answered(client.Usage{Claims: 4, Unscored: none}))
	require.NoError(t, answered(client.Usage{}), "fixed rules ask nothing")
}
