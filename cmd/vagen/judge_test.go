package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/reward/judge"
)

const labelledSet = "../../testdata/judge/labelled.json"

func TestJudgesAreMeasuredOnALabelledSet(t *testing.T) {
	code, out, _ := launchRun(t, "", "judge", "eval", "--json", labelledSet)
	require.Equal(t, cli.OK, code)
	var e judge.Evaluation
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	require.Greater(t, e.All.F1(), 0.9)
	code, out, _ = launchRun(t, "", "judge", "eval", labelledSet)
	require.Equal(t, cli.OK, code)
	require.Contains(t, out, "negation")

	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer sesame", r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"[]"},"finish_reason":"stop"}]}`))
	}))
	defer service.Close()
	t.Setenv("JUDGE_KEY", "sesame")
	code, out, errs := launchRun(t, "", "judge", "eval", "--json", "--limit", "5", "--base-url", service.URL+"/v1", "--model", "m", "--key-env", "JUDGE_KEY", labelledSet)
	require.Equal(t, cli.OK, code, errs)
	e = judge.Evaluation{}
	require.NoError(t, json.Unmarshal([]byte(out), &e))
	require.Equal(t, 5, e.All.Cases)
	require.Zero(t, e.All.Stated)
	require.NotContains(t, out+errs, "sesame")
}

func TestJudgeEvalRefusesWhatItCannotRead(t *testing.T) {
	for _, args := range [][]string{{}, {"main.go"}, {"missing.json"}, {"--limit", "-1", labelledSet}, {"--model", "m", labelledSet}, {"--key-env", "K", labelledSet}} {
		code, _, errs := launchRun(t, "", append([]string{"judge", "eval"}, args...)...)
		require.Equal(t, cli.Usage, code, "%v: %s", args, errs)
	}
}
