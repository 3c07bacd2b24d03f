package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/config"
)

// probes are values beyond the limits of most settings, by the type of the default.
func probes(value any) []string {
	switch value.(type) {
	case int, int64, *int, *int64:
		return []string{"-2", "0", "16", "1073741825"}
	case float64, *float64:
		return []string{"-1", "1.5", "1e13"}
	case string, *string:
		return []string{"''", "zzz"}
	case []string:
		return []string{"[zzz]"}
	}
	return nil
}

// contexts turn on features whose settings are checked only then.
var contexts = []string{
	"env.name=frozenlake",
	`env.name=sokoban run.queue=embedded actor_rollout_ref.rollout.name=vllm
		actor_rollout_ref.rollout.engine.addresses=[http://h:1] rollout_manager.use_service=true
		sft.train_files=[a.jsonl] trainer.stage=sft+rl`,
}

// TestErrorsOfEverySetting compares them with those in testdata/errors.txt, which were recorded
// when every check was a statement of its own. Lists of known names are left out.
func TestErrorsOfEverySetting(t *testing.T) {
	recorded := testkit.Text(t, "testdata/errors.txt")
	var out strings.Builder
	seen := map[string]bool{}
	for _, context := range contexts {
		c, err := config.Load("", strings.Fields(context)...)
		require.NoError(t, err)
		for _, k := range config.SafeKeys(&c) {
			if !strings.Contains(recorded, k.Path+"=") { // a newer setting
				continue
			}
			for _, value := range probes(k.Value) {
				changed := c
				assignment := k.Path + "=" + value
				if changed.Override(assignment) != nil { // of another type
					continue
				}
				err := changed.Validate()
				line := fmt.Sprintf("%s: %v\n", assignment, err)
				if err != nil && !seen[line] {
					seen[line] = true
					line = strings.ReplaceAll(line, config.ErrConfig.Error()+": ", "")
					line, _, _ = strings.Cut(line, " (known: ")
					out.WriteString(strings.TrimSpace(line) + "\n")
				}
			}
		}
	}
	require.Equal(t, recorded, out.String())
}

func TestOwnersAndRulesOfResumingAreKnown(t *testing.T) {
	c := config.Default()
	for _, k := range config.SafeKeys(&c) {
		require.Contains(t, []string{"trainer", "checkpoint", "learner", "run"}, k.Owner,
			"%s: its declaration must have a tag owner, or a struct around it", k.Path)
		require.Contains(t, []string{"", "free", "devices"}, k.Resume, k.Path)
	}
}
