package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADryRunOfTheSupervisedStage, which plays no levels, says how many examples it has; train
// with trainer.stage=sft is the same.
func TestADryRunOfTheSupervisedStage(t *testing.T) {
	config, out := setup(t)
	chats := file(t, "chats.jsonl", `{"prompt": "hi", "response": "Up"}`+"\n"+`{"prompt": "ho", "response": "Left"}`+"\n")
	for _, command := range [][]string{{"sft"}, {"train", "trainer.stage=sft"}} {
		for _, from := range [][]string{
			{"sft.train_files=[" + chats + "]", "env.name=null", "env.config=null"},
			{"sft.lessons.teacher=shortest_path", "sft.lessons.episodes=2"},
		} {
			args := append([]string{command[0], config, "--dry-run", "--out", out, "sft.val_fraction=0"}, append(command[1:], from...)...)
			text := succeed(t, args...)
			require.Contains(t, text, "supervised stage: 2 examples\n")
			require.Contains(t, text, "can be trained: 1 steps with ")
			require.NoDirExists(t, out)
		}
	}
}
