package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
	"vagen/reward"
	"vagen/rollout"
)

// letters is a policy whose tokens are bytes; a 0 ends the turn and has no text.
type letters struct{ short int }

func (l letters) Ends(tokens []int32) []int {
	ends := make([]int, len(tokens)-l.short)
	for i := range ends {
		ends[i] = i + 1
	}
	return ends
}

// spoken records an episode with these responses, each in its own row or all in one,
// with the sections that a parser found.
func spoken(t *testing.T, rows bool, turns ...rollout.Turn) *rollout.Trajectory {
	t.Helper()
	tr := &rollout.Trajectory{Rows: []rollout.Row{{}}}
	for k, turn := range turns {
		if rows && k > 0 {
			tr.Rows = append(tr.Rows, rollout.Row{})
		}
		turn.Row = len(tr.Rows) - 1
		row := &tr.Rows[turn.Row]
		require.NoError(t, row.AppendContext(mask.Observation, 1, 2))
		var tokens []int32
		for _, b := range []byte(turn.Response) {
			tokens = append(tokens, int32(b))
		}
		require.NoError(t, row.AppendResponse(append(tokens, 0)...))
		tr.Turns = append(tr.Turns, turn)
	}
	return tr
}

func said(response string, sections map[string]string) rollout.Turn {
	return rollout.Turn{Response: response, Parsed: reward.Response{Sections: sections}}
}

// texts lists the spans of a row as "name: text".
func texts(r *rollout.Row) (out []string) {
	for s := range r.Spans {
		var b strings.Builder
		for _, token := range r.Tokens()[s.Start:s.End] {
			b.WriteByte(byte(token))
		}
		out = append(out, s.Name+": "+b.String())
	}
	return out
}

// TestSectionsBecomeSpans: the text of a section is found after its own tag, even if
// another section has the same text, and else after any tag.
func TestSectionsBecomeSpans(t *testing.T) {
	for _, rows := range []bool{false, true} {
		tr := spoken(t, rows,
			said("<think>go <observation>go</observation> <prediction>go</prediction></think><answer>Up</answer>",
				map[string]string{"observation": "go", "prediction": "go", "answer": "Up",
					"think": "go <observation>go</observation> <prediction>go</prediction>"}),
			said("here <perception> near </perception><action>near</action>",
				map[string]string{"observation": "near", "answer": "", "reasoning": "far"}),
			said("no tags at all", nil),
		)
		require.NoError(t, rollout.MarkSpans(letters{}, []*rollout.Trajectory{tr}))
		var got []string
		for i := range tr.Rows {
			got = append(got, texts(&tr.Rows[i])...)
		}
		require.Equal(t, []string{
			"answer: Up", "observation: go", "prediction: go",
			"think: go <observation>go</observation> <prediction>go</prediction>", "observation: near",
		}, got)
		// Each span is at its own section: observation and prediction are two spans.
		var starts []int
		for s := range tr.Rows[0].Spans {
			starts = append(starts, s.Start-2) // after two tokens of context
		}
		require.Equal(t, []int{83, 23, 52, 7}, starts[:4])
	}
}

// TestRewardsOfSectionsArePlacedOnTheirSpans uses MarkSpans with reward.PerSpan.
func TestRewardsOfSectionsArePlacedOnTheirSpans(t *testing.T) {
	turn := said("<a>x</a><b>y</b>", map[string]string{"a": "x", "b": "y"})
	turn.Reward = reward.Parts{{Name: "a", Value: 1}, {Name: "b", Value: 2}, {Name: "success", Value: 4}}
	tr := spoken(t, false, turn)
	require.NoError(t, rollout.MarkSpans(letters{}, []*rollout.Trajectory{tr}))
	got, err := tr.Rewards(nil, 0, reward.PerSpan)
	require.NoError(t, err)
	want := make([]float32, tr.Rows[0].Len())
	want[2+3], want[2+11], want[len(want)-1] = 1, 2, 4
	require.Equal(t, want, got)
}

// pieces is a policy whose tokens have several bytes each, or none.
type pieces []int

func (p pieces) Ends([]int32) []int { return p }

// TestTokensPartlyInASectionBelongToIt: a section's span has every token with a byte
// of the section.
func TestTokensPartlyInASectionBelongToIt(t *testing.T) {
	tr := &rollout.Trajectory{Rows: []rollout.Row{{}}, Turns: []rollout.Turn{said("<a>seen</a>", map[string]string{
		"a": "seen"})}}
	require.NoError(t, tr.Rows[0].AppendResponse(10, 11, 12, 13, 14))
	// "<a", ">s", "", "een<", "/a>"
	require.NoError(t, rollout.MarkSpans(pieces{2, 4, 4, 8, 11}, []*rollout.Trajectory{tr}))
	for s := range tr.Rows[0].Spans {
		require.Equal(t, []int{1, 4}, []int{s.Start, s.End})
	}
	require.Len(t, texts(&tr.Rows[0]), 1)
}

func TestAPolicyThatLosesTokensIsFound(t *testing.T) {
	tr := spoken(t, false, said("<a>x</a>", map[string]string{"a": "x"}))
	tr.Group, tr.Index = 3, 1
	require.ErrorContains(t, rollout.MarkSpans(letters{short: 2}, []*rollout.Trajectory{tr}),
		"group 3, episode 1, turn 0: the policy returned the ends of 7 of 9 tokens")
}
