package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/rollout/gateway"
	"vagen/train"
	"vagen/train/track"
)

// TestMain runs the agent instead of the tests in the processes that the gateway starts.
func TestMain(m *testing.M) {
	if os.Getenv("VAGEN_EPISODE_URL") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTheAgentIsTrained: programs that were not written for it are played as episodes, and win
// more often after a few steps of a table that learns.
func TestTheAgentIsTrained(t *testing.T) {
	c := traintest.Small()
	c.Env.Name, c.Env.Config = gateway.Name, map[string]any{"command": []any{os.Args[0]}}
	c.Algorithm.Estimator = "bi_level_gae"
	c.Trainer.Steps, c.Rollout.MaxTurns = 12, 3
	guess := func(n string) string {
		return "<tool_call>\n{\"name\": \"guess\", \"arguments\": {\"number\": " + n + "}}\n</tool_call>"
	}
	envs := new(env.Registry)
	require.NoError(t, gateway.Register(envs, nil))
	defer func() { require.NoError(t, envs.Close()) }()
	j := new(traintest.Journal)
	tr := &train.Trainer{Config: c, Learner: traintest.NewBandit(guess("1"), guess("2"), "No idea."), Envs: envs,
		Sinks: []track.Sink{j}}
	require.NoError(t, tr.Run(t.Context()))
	var success []float64
	for _, e := range *j {
		if x, ok := e.Metrics["train/success"]; ok {
			success = append(success, x)
		}
	}
	require.Len(t, success, 12)
	early, late := (success[0]+success[1])/2, (success[10]+success[11])/2
	require.Greater(t, late, early+0.2, "%v", success)
}
