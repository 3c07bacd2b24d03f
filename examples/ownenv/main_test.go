package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

func Example() {
	main()
	// Output:
	// checked: 0 problems
	// 30? It is lower.
	// 15? It is higher.
	// 22? It is lower.
	// 18? It is lower.
	// 16? It is higher.
	// 17? That is it!
	// reward 1.6
}

func TestOptionsOfOnesOwnAreChecked(t *testing.T) {
	_, err := newGuess(map[string]any{"max": 0})
	require.ErrorIs(t, err, env.ErrOption)
	_, err = newGuess(map[string]any{"maxx": 3})
	require.ErrorContains(t, err, `did you mean "max"?`)
}
