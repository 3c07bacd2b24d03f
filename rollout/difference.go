package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
)

// Difference is the first difference between two lists of episodes.
type Difference struct {
	Episode      int // position in the lists
	Group, Index int // of the episode in the first list
	Turn         int // counted over the episode; -1 if the difference is in no turn
	Row, Token   int // conversation and position of a token; -1 if the difference is not in a token
	What         string
	Was, Is      string // in the first list, and in the second
}

// String describes the difference on one line.
func (d *Difference) String() string {
	s := fmt.Sprintf("episode %d (group %d, index %d)", d.Episode, d.Group, d.Index)
	if d.Turn >= 0 {
		s += fmt.Sprintf(", turn %d", d.Turn)
	}
	if d.Token >= 0 {
		s += fmt.Sprintf(", conversation %d, position %d", d.Row, d.Token)
	}
	return fmt.Sprintf("%s: %s was %s, is %s", s, d.What, d.Was, d.Is)
}

// FirstDifference compares episodes one by one: their tokens, the tokens' log-probs
// bit by bit, and then everything else that is recorded of a turn and of the
// episode. nil means that nothing differs. Images are compared by their hashes
// where conversations have them. Errors and parsed responses are not compared.
func FirstDifference(was, is []*Trajectory) *Difference {
	for i := range min(len(was), len(is)) {
		old := cmp.Or(was[i], new(Trajectory))
		if d := old.difference(cmp.Or(is[i], new(Trajectory))); d != nil {
			d.Episode, d.Group, d.Index = i, old.Group, old.Index
			return d
		}
	}
	if len(was) != len(is) {
		return &Difference{Episode: min(len(was), len(is)), Turn: -1, Row: -1, Token: -1, What: "number of episodes",
			Was: fmt.Sprint(len(was)), Is: fmt.Sprint(len(is))}
	}
	return nil
}

func (t *Trajectory) difference(o *Trajectory) *Difference {
	whole := func(what string, was, is any) *Difference { return unequal(-1, what, was, is) }
	if d := whole("start state", fmt.Sprint(t.Env, " ", t.Seed, " ", t.Group, " ", t.Index),
		fmt.Sprint(o.Env, " ", o.Seed, " ", o.Group, " ", o.Index)); d != nil {
		return d
	}
	first := 0 // turn of the episode that a conversation begins with
	for r := range min(len(t.Rows), len(o.Rows)) {
		if d := t.Rows[r].difference(&o.Rows[r]); d != nil {
			d.Row = r
			d.Turn += first
			return d
		}
		first += t.Rows[r].Turns()
	}
	for k := range min(len(t.Turns), len(o.Turns)) {
		if d := t.Turns[k].difference(&o.Turns[k], k); d != nil {
			return d
		}
	}
	for _, f := range []struct {
		what    string
		was, is any
	}{
		{"number of conversations", len(t.Rows), len(o.Rows)}, {"number of turns", len(t.Turns), len(o.Turns)},
		{"end", t.End, o.End}, {"success", t.Success, o.Success}, {"attempt", t.Attempt, o.Attempt},
	} {
		if d := whole(f.what, f.was, f.is); d != nil {
			return d
		}
	}
	if !sameNumbers(t.Metrics, o.Metrics) {
		return whole("metrics", fmt.Sprint(t.Metrics), fmt.Sprint(o.Metrics))
	}
	return nil
}

// difference compares conversations. Turns are counted from the conversation's first.
func (r *Row) difference(o *Row) *Difference {
	a, b := r.Tokens(), o.Tokens()
	turn := 0
	response := r.Response(nil)
	at := func(i int, what string, was, is any) *Difference {
		return &Difference{Turn: turn, Token: i, What: what, Was: fmt.Sprint(was), Is: fmt.Sprint(is)}
	}
	for i := range min(len(a), len(b)) {
		if i > 0 && response[i-1] && !response[i] {
			turn++ // context tokens belong to the turn that follows them
		}
		if a[i] != b[i] {
			return at(i, "token", a[i], b[i])
		}
		if i >= len(r.LogProbs) || i >= len(o.LogProbs) { // of a row whose policy reports none
			continue
		}
		if x, y := r.LogProbs[i], o.LogProbs[i]; math.Float32bits(x) != math.Float32bits(y) {
			return at(i, fmt.Sprintf("log-prob of token %d", a[i]), x, y)
		}
	}
	if len(a) != len(b) {
		return at(min(len(a), len(b)), "number of tokens", len(a), len(b))
	}
	if x, y := len(r.LogProbs), len(o.LogProbs); x != y {
		return &Difference{Token: -1, What: "number of log-probs", Was: fmt.Sprint(x), Is: fmt.Sprint(y)}
	}
	if !r.Equal(&o.Sequence) {
		return &Difference{Token: -1, What: "who wrote which tokens", Was: "as recorded", Is: "otherwise"}
	}
	for i := range max(len(r.Images), len(o.Images)) {
		if i >= len(r.Images) || i >= len(o.Images) {
			return &Difference{Token: -1, What: "number of pictures", Was: fmt.Sprint(len(r.Images)),
				Is: fmt.Sprint(len(o.Images))}
		}
		if x, y := r.Images[i].Hash, o.Images[i].Hash; x != y {
			return &Difference{Token: -1, What: fmt.Sprintf("picture %d", i), Was: fmt.Sprintf("%x", x[:6]),
				Is: fmt.Sprintf("%x", y[:6])}
		}
	}
	return nil
}

func (t *Turn) difference(o *Turn, k int) *Difference {
	for _, f := range []struct {
		what    string
		was, is any
	}{
		{"observation", t.Observation.Text, o.Observation.Text}, {"response", t.Response, o.Response},
		{"stop", t.Stop, o.Stop},
		{"version", t.Version, o.Version}, {"cut", t.Cut, o.Cut}, {"conversation", t.Row, o.Row},
		{"number of rewards", len(t.Reward), len(o.Reward)},
	} {
		if d := unequal(k, f.what, f.was, f.is); d != nil {
			return d
		}
	}
	for i, p := range t.Reward {
		q := o.Reward[i]
		if p.Name != q.Name || math.Float64bits(p.Value) != math.Float64bits(q.Value) {
			return unequal(k, "reward", fmt.Sprint(p.Name, " ", p.Value), fmt.Sprint(q.Name, " ", q.Value))
		}
	}
	if !sameNumbers(t.Metrics, o.Metrics) {
		return unequal(k, "metrics", fmt.Sprint(t.Metrics), fmt.Sprint(o.Metrics))
	}
	return nil
}

// sameNumbers compares numbers bit by bit; nil equals an empty map.
func sameNumbers[M ~map[string]float64](a, b M) bool {
	return maps.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// unequal returns the Difference between two values of a turn or, with turn -1, of an
// episode; nil if they are equal.
func unequal(turn int, what string, was, is any) *Difference {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	show := func(x any) string {
		if s, ok := x.(string); ok {
			return fmt.Sprintf("%q", s)
		}
		return fmt.Sprint(x)
	}
	return &Difference{Turn: turn, Row: -1, Token: -1, What: what, Was: show(was), Is: show(is)}
}
