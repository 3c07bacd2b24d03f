package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/train/credit"
)

// TestAStudyIsWrittenAndResumes: a second call with the same folder trains nothing and writes the same page, one after a
// removed file trains that run again, to the same result, and one with other settings is refused.
func TestAStudyIsWrittenAndResumes(t *testing.T) {
	dir := t.TempDir()
	o := options{seeds: 2, steps: 2, measured: 2, out: filepath.Join(dir, "out"), report: filepath.Join(dir, "page.md")}
	read := func() string {
		require.NoError(t, compare(t.Context(), o, new(bytes.Buffer)))
		return testkit.Text(t, o.report)
	}
	want := read()
	for _, name := range append(compared, credit.ReturnMinusMean) {
		require.Contains(t, want, name)
	}
	for _, name := range []string{"credit-2", compared[0]} {
		file := filepath.Join(o.out, "seed1", name+".json")
		before := testkit.Text(t, file)
		require.NoError(t, os.Remove(file))
		require.Equal(t, want, read())
		require.Equal(t, before, testkit.Text(t, file))
	}
	o.measured = 1
	require.NotEqual(t, want, read(), "fewer turns are measured")
	o.steps, o.measured = 4, 2
	require.ErrorContains(t, compare(t.Context(), o, new(bytes.Buffer)), "another configuration")
}

func TestFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"-seeds 1": "2 or more", "-steps 3": "even number", "-measured 129": "[1, 128]", "x": "only flags",
	} {
		_, err := parse(strings.Fields(args), new(bytes.Buffer))
		require.ErrorContains(t, err, want, args)
	}
}

// TestEstimatorsAreRegistered: names, and the one whose policy is measured has a critic.
func TestEstimatorsAreRegistered(t *testing.T) {
	for _, name := range compared {
		_, err := advantage.Describe(name)
		require.NoError(t, err)
	}
	spec, err := advantage.Describe(half)
	require.NoError(t, err)
	require.True(t, spec.Critic)
}

// TestMapsAreStates: a message without a map has no state, and two maps have two.
func TestMapsAreStates(t *testing.T) {
	_, ok := read(policy.Message{Text: "Go to the goal."})
	require.False(t, ok)
	one, ok := read(policy.Message{Text: "This is the lake:\n P  G \n"})
	require.True(t, ok)
	other, _ := read(policy.Message{Text: "This is the lake:\n _  √ \n"})
	require.NotEqual(t, one, other)
}
