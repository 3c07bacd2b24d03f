package main

import (
	"strings"
	"testing"
)

// TestFlagsWithoutEffectAreRefused, each beside the one that makes it so.
func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	for want, line := range map[string]string{
		"--format is set, but --wrap":                     "play frozenlake --wrap {} --format wm",
		"--images is set, but --inline kitty":             "play frozenlake --inline kitty --images d",
		"--format is set, but --response":                 "env check frozenlake --response x --format wm",
		"--think-open is set, but --thinking":             "generate --model m --prompt p --think-open <t>",
		"CONFIG is c.yaml, but --explain":                 "eval c.yaml --explain",
		"--out is set, but --explain":                     "eval --explain --out d",
		"--workers is set, but --discard":                 "worker --queue nats://127.0.0.1:1 --discard run --workers 3",
		"--max-batch is set, but the protocol legacy":     "serve --env frozenlake --protocol lite --max-batch 3",
		"--session-timeout is set, but only the protocol": "serve --env frozenlake --protocol legacy --session-timeout 3s",

		"--rollout-dtype is set, but --mode train":         "bench --model m --mode train --rollout-dtype int8",
		"--share-prefix is set, but --mode logprob":        "bench --model m --mode logprob --share-prefix",
		"--draft-tokens is set, but --mode prefill":        "bench --model m --mode prefill --draft-tokens 1",
		"--recompute is set, but --mode decode":            "bench --model m --mode decode --recompute blocks",
		"--share-prefix is set, but there is one prompt":   "generate --model m --prompt p --share-prefix",
		"--share-prefix is set, but a model on one device": "gateway --model m --out d --share-prefix",
		"trainer.stage=rl is given":                        "sft env=frozenlake trainer.stage=rl",
		"--seed is set, but --no-replay":                   "verify run --no-replay --seed 3",
	} {
		refuse(t, want, strings.Fields(line)...)
	}
}
