package vlm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// processed is a picture with a number of bytes and a unique hash.
func processed(name byte, bytes int) (hash [32]byte, p net.Picture) {
	return [32]byte{name}, net.Picture{Pixels: make([]byte, bytes)}
}

// held lists which of the pictures a…z are in the cache, without using them.
func (c *pictureCache) held() (names string, bytes int) {
	for name := byte('a'); name <= 'z'; name++ {
		for _, half := range []map[[32]byte]net.Picture{c.fresh, c.old} {
			if p, ok := half[[32]byte{name}]; ok {
				names, bytes = names+string(name), bytes+len(p.Pixels)
				break
			}
		}
	}
	return names, bytes
}

func TestPicturesOfAStepGoInTheNextButOne(t *testing.T) {
	c := newPictureCache(1000)
	hold := func(want, why string) {
		t.Helper()
		got, _ := c.held()
		require.Equal(t, want, got, why)
	}
	c.put(processed('a', 10))
	c.put(processed('b', 10))
	c.startRound()
	c.startRound()
	hold("ab", "nothing has been learned: a conversation beside others begins no round")
	c.markTraining()
	c.markTraining()
	hold("ab", "several optimiser steps")
	c.startRound()
	c.put(processed('c', 10))
	hold("abc", "a step is collected ahead during the update of the previous one")
	_, ok := c.get([32]byte{'a'})
	require.True(t, ok)
	c.markTraining()
	c.startRound()
	hold("ac", "b was not asked for in a whole round")
	c.markTraining()
	c.startRound()
	hold("", "all of them were not")
	_, ok = c.get([32]byte{'a'})
	require.False(t, ok)
}

func TestPicturesStayWithinTheirLimit(t *testing.T) {
	c := newPictureCache(100)
	for name := byte('a'); name <= 'z'; name++ {
		c.put(processed(name, 20))
		c.put(processed(name, 20)) // again: nothing
		_, bytes := c.held()
		require.LessOrEqual(t, bytes, 100)
		_, ok := c.get([32]byte{name})
		require.True(t, ok)
	}
	names, _ := c.held()
	require.Equal(t, "wxyz", names)
	c.put(processed('a', 500)) // a picture that is larger than the limit is kept alone, because it is read next
	_, ok := c.get([32]byte{'a'})
	require.True(t, ok)
	c.markTraining()
	require.Equal(t, learnedPictures, c.limit)
}

// Every step shows pictures that no step before has shown.
func TestProcessedPicturesDoNotPileUpOverSteps(t *testing.T) {
	m := newTiny(t, model.Qwen3VL, Options{MicroTokens: 64})
	var shown [][32]byte // two a step
	for step := range uint64(5) {
		out, err := m.Generate(t.Context(), []policy.Prompt{
			{Conversation: 1, Messages: say("<image> left?", drawing(100+2*step, 24, 24)), Seed: step},
			{Conversation: 2, Messages: say("<image> left?", drawing(101+2*step, 24, 24)), Seed: step},
		}, policy.Sampling{Temperature: 1, MaxTokens: 4})
		require.NoError(t, err)
		shown = append(shown, out[0].Images[0].Hash, out[1].Images[0].Hash)
		for i, hash := range shown {
			_, fresh := m.text.pictures.fresh[hash]
			_, old := m.text.pictures.old[hash]
			require.Equal(t, i/2+1 >= int(step), fresh || old, "in step %d, a picture of step %d", step, i/2)
		}
		train(t, m, 1)
	}
}
