package proof

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/track"
)

// TestDamagedCountsAllocateNothing: a line may name more events than a chain can have.
func TestDamagedCountsAllocateNothing(t *testing.T) {
	h := newHistory(&Chain{Lines: []Line{
		{Kind: KindStart, Kept: 2 * maxEvents}, {Kind: track.KindStep, Step: 1}, {Kind: KindResume, Kept: 3 * maxEvents},
	}}, true)
	require.LessOrEqual(t, len(h.events), maxEvents+1)
	require.NotEmpty(t, h.faults)
}

// TestRunsThatDoNotRepeatAreNotHeldToIt: what a resumed run computes again may differ if its episodes depend on time.
func TestRunsThatDoNotRepeatAreNotHeldToIt(t *testing.T) {
	chain := &Chain{Lines: []Line{
		{Kind: KindStart, Facts: &Facts{Backend: "xla:cpu"}}, {Kind: track.KindStep, Step: 1, Metrics: "a"},
		{Kind: KindResume, Facts: &Facts{Backend: "xla:cpu"}}, {Kind: track.KindStep, Step: 1, Metrics: "b"},
	}}
	for repeats, want := range map[bool][2]int{true: {1, 0}, false: {0, 1}} {
		h := newHistory(chain, repeats)
		require.Equal(t, want, [2]int{len(h.faults), len(h.unequal)}, "%v %v", h.faults, h.unequal)
	}
}

func TestARecorderThatIsNotOpenRecordsNothing(t *testing.T) {
	require.ErrorContains(t, new(Recorder).Event(track.Event{Kind: track.KindStep}), FileName)
}
