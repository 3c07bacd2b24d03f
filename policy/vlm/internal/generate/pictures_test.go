package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/net"
)

// processed is a picture with a number of bytes and a unique hash.
func processed(name byte, bytes int) (hash [32]byte, p net.Picture) {
	return [32]byte{name}, net.Picture{Pixels: make([]byte, bytes)}
}

// held lists which of the pictures a…z are in the cache, without using them.
func (c *pictureCache) held() (names string, bytes int) {
	for name := byte('a'); name <= 'z'; name++ {
		for _, half := range []map[[32]byte]net.Picture{c.Fresh, c.Old} {
			if p, ok := half[[32]byte{name}]; ok {
				names, bytes = names+string(name), bytes+len(p.Pixels)
				break
			}
		}
	}
	return names, bytes
}

func TestPicturesOfAStepGoInTheNextButOne(t *testing.T) {
	c := NewPictureCache(1000)
	hold := func(want, why string) {
		t.Helper()
		got, _ := c.held()
		require.Equal(t, want, got, why)
	}
	c.Put(processed('a', 10))
	c.Put(processed('b', 10))
	c.startRound(true)
	c.startRound(true)
	hold("ab", "nothing has been learned: a conversation beside others begins no round")
	c.MarkTraining()
	c.MarkTraining()
	hold("ab", "several optimiser steps")
	c.startRound(true)
	c.Put(processed('c', 10))
	hold("abc", "a step is collected ahead during the update of the previous one")
	_, ok := c.get([32]byte{'a'})
	require.True(t, ok)
	c.MarkTraining()
	c.startRound(true)
	hold("ac", "b was not asked for in a whole round")
	c.MarkTraining()
	c.startRound(true)
	hold("", "all of them were not")
	_, ok = c.get([32]byte{'a'})
	require.False(t, ok)
}

func TestPicturesStayWithinTheirLimit(t *testing.T) {
	c := NewPictureCache(100)
	for name := byte('a'); name <= 'z'; name++ {
		c.Put(processed(name, 20))
		c.Put(processed(name, 20)) // again: nothing
		_, bytes := c.held()
		require.LessOrEqual(t, bytes, 100)
		_, ok := c.get([32]byte{name})
		require.True(t, ok)
	}
	names, _ := c.held()
	require.Equal(t, "wxyz", names)
	c.Put(processed('a', 500)) // a picture that is larger than the limit is kept alone, because it is read next
	_, ok := c.get([32]byte{'a'})
	require.True(t, ok)
	c.MarkTraining()
	require.Equal(t, LearnedPictures, c.limit)
}
