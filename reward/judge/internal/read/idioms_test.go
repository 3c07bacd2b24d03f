package read

import (
	"sort"
	"strings"
	"testing"

	"vagen/reward"
)

// Phrases whose words mean something else one by one, with what they assert, as phrasings has it.
var idioms = []struct{ env, text, want string }{
	// the time of a prediction is no condition
	{"f", "When the action is over, the hole will be located due west of the player.", "hsl"},
	{"s", "As soon as the move is done, the crate will be located level with the player.", "bs-"},
	{"f", "By the time my step has been completed, the goal will be one row above me.", "ta-"},
	{"f", "Once I have moved, the goal will be to my left.", "t-l"},
	{"f", "When the goal is above me, I go up.", ""},
	// numbers of objects, and counts
	{"s", "Above me and in the same column will be box no. 1. Box no. 2 will be to the right of me and below.", "bas bbr"},
	{"s", "Target number one is below the player and to the left. Target number two is to the left of the player in the same row.", "tbl tsl"},
	{"f", "Half a dozen holes are to the north of me.", "ha- ha- ha- ha- ha- ha-"},
	{"f", "There are zero holes above me and two holes below me.", "hb- hb-"},
	{"f", "No. The hole is not above me.", ""},
	// the same row or column
	{"f", "The goal is above me without any sideways offset.", "tas"},
	{"f", "The goal is to the left of me with no vertical offset.", "tsl"},
	{"s", "The target isn't above me, and it isn't below me either.", "ts-"},
	{"s", "The target isn't to the right of me, and it isn't to the left either.", "t-s"},
	{"s", "The target can be found exactly where I stand.", "tss"},
	{"s", "I am standing on the target spot. The box is below me.", "tss bb-"},
	{"s", "The target is on the player's own square.", "tss"},
	{"s", "Crate 1 is located in the column where I stand. Crate 2 is in the row I occupy, further right.", "b-s bsr"},
	{"f", "I stand on the left.", ""},
	// whose side, and seen from where
	{"f", "The hole is directly on the player's right.", "hsr"},
	{"f", "The goal is to the agent's west and to the agent's north.", "tal"},
	{"f", "The target will be located down from me by two rows.", "tb-"},
	{"f", "From the point of view of the hole, I am to the south-east.", "hal"},
	{"f", "Starting from me, two steps down plus two steps left leads to the hole.", "hbl"},
	{"f", "My row is higher up than the row of the hole.", "hb-"},
	{"s", "My column is further right than the column of the box.", "b-l"},
	// distances and directions in dictionaries
	{"s", `{"target": {"rows_up": 0, "columns_right": 1}, "box": {"rows_up": 1, "columns_right": 0}}`, "tsr bas"},
	{"s", `{"target": {"rows_down": -2, "columns_left": 1}, "box": {"rows_up": 1, "rows_down": 1}}`, "tal"},
	{"f", `{"objects": [{"name": "goal", "direction": {"vertical": "below", "horizontal": "right"}}, {"name": "hole", "direction": {"vertical": "same", "horizontal": "right"}}]}`, "tbr hsr"},
	{"s", `["floor", {"object_id": "target", "vertical_relation": "below", "horizontal_relation": "left"}, 0]`, "tbl"},
	{"f", `["floor", 0, "hole"]`, ""},
}

func TestIdiomsAreReadAsAWhole(t *testing.T) {
	for _, p := range idioms {
		c := reward.Claim{Env: map[string]string{"f": "frozenlake", "s": "sokoban"}[p.env], Text: p.text, Truth: []reward.Relation{
			reward.Relate("target", 0, 0), reward.Relate("hole", 0, 0), reward.Relate("box", 0, 0)}}
		want := strings.Fields(p.want)
		sort.Strings(want)
		if got := letters(Relations(c)); got != strings.Join(want, " ") {
			t.Errorf("%q asserts %q, want %q", p.text, got, p.want)
		}
	}
}
