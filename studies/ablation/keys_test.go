package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train"
	"vagen/train/config"
)

// TestEveryPresetOfTheStudyIsHandled: the keys that a preset gives values of their own
// are honoured by the Trainer or listed in handled.
func TestEveryPresetOfTheStudyIsHandled(t *testing.T) {
	defaults := config.Default()
	for _, preset := range presets {
		c, err := published().configure(preset, 0, "go")
		require.NoError(t, err)
		for _, line := range config.Differences(&defaults, &c) {
			key, _, _ := strings.Cut(line, ":")
			for _, outer := range train.OuterKeys() {
				if key == outer && key != "trainer.save_freq" {
					require.True(t, isHandled(key), "%s: %s", preset, line)
				}
			}
		}
	}
}

func isHandled(key string) bool {
	for _, h := range handled {
		if h == key || strings.HasSuffix(h, ".") && strings.HasPrefix(key, h) {
			return true
		}
	}
	return false
}
