package rollout

import (
	"strings"

	"vagen/env"
	"vagen/policy"
)

// Transcript builds the messages of an episode so far from the text of its turns.
type Transcript struct {
	System      env.Observation  // empty without instructions
	Turns       []Turn           // played
	Observation *env.Observation // shown after the last turn; nil ends with its response
	// Last, when set, is the number of turns to show: only the last ones. 0 or less
	// shows no turn, so that Now is the only observation; nil shows all.
	Last *int
	// Begin and End, when set, are put around each response. Models of the full
	// VAGEN system that train on marked text expect them. Package mask reads the marks.
	Begin, End string
}

// ShownTurns returns the turns that the transcript shows.
func (t *Transcript) ShownTurns() []Turn {
	if t.Last == nil {
		return t.Turns
	}
	return t.Turns[len(t.Turns)-min(max(0, *t.Last), len(t.Turns)):]
}

// Messages returns the messages. Image marks in responses are removed, and so are
// Begin and End marks within a response.
func (t *Transcript) Messages() []policy.Message {
	var out []policy.Message
	if t.System.Text != "" {
		out = append(out, message(policy.System, t.System))
	}
	for _, turn := range t.ShownTurns() {
		out = append(out, message(policy.User, turn.Observation),
			policy.Message{Role: policy.Assistant, Text: t.response(turn.Response)})
	}
	if t.Observation != nil {
		out = append(out, message(policy.User, *t.Observation))
	}
	return out
}

func (t *Transcript) response(text string) string {
	text = env.WithoutMarks(text)
	for _, mark := range []string{t.Begin, t.End} {
		if mark != "" {
			text = strings.ReplaceAll(text, mark, "")
		}
	}
	return t.Begin + text + t.End
}
