// Package tinymodel creates models for tests.
package tinymodel

import (
	"path/filepath"
	"testing"

	"vagen/policy/vlm"
)

// Tags are one token each of models that answer in tags.
var Tags = []string{"<think>", "</think>", "<answer>", "</answer>", "Left", "Up"}

// Lake are texts of brief prompts of FrozenLake in pictures and of their answers.
var Lake = []string{
	"<answer>", "</answer>", "system\n", "user\n", "assistant\n", "Reach", " the", " goal", " avoid", " holes", "Turn",
	" 1", " 2", " 3", " 4", "Left", "Down", "Right", "Up",
}

// Shape is that of the smallest model with a vision tower. The pure-Go backend trains it in a moment.
func Shape() vlm.Shape {
	s := vlm.Small()
	s.Layers, s.Hidden, s.FF, s.Heads, s.HeadDim, s.RopeSections = 1, 16, 16, 1, 16, [3]int{4, 2, 2}
	s.VisionHidden, s.VisionFF, s.VisionHeads = 16, 16, 1
	return s
}

// Create returns the folder of a new model with words as tokens of their own.
func Create(t testing.TB, s vlm.Shape, words []string, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := vlm.Create(dir, s, words, seed); err != nil {
		t.Fatal(err)
	}
	return dir
}
