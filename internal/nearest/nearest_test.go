package nearest

import "testing"

func TestNameFindsTheMisspeltName(t *testing.T) {
	known := []string{"size", "slip_prob", "max_actions_per_step"}
	for in, want := range map[string]string{
		"siez":                "size",
		"slipprob":            "slip_prob",
		"max_action_per_step": "max_actions_per_step",
		"temperature":         "",
		"":                    "",
	} {
		if got := Name(in, known); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Hint("siez", known); got != `, did you mean "size"?` {
		t.Errorf("Hint = %q", got)
	}
}
