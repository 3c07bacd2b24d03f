package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/policy"
)

// MarkSpans adds the sections of responses, such as observation and answer, to
// their rows as spans, so that the reward of a section can be placed on its tokens
// (reward.PerSpan). A token that lies partly in a section belongs to its span.
// Sections that are empty, or not found in the text, have no span. Call it once
// for each episode.
func MarkSpans(policy policy.Aligner, ts []*Trajectory) error {
	for _, t := range present(ts) {
		turns := make([]int, len(t.Rows)) // turns of each row so far
		for k, turn := range t.Turns {
			if turn.Row < 0 || turn.Row >= len(t.Rows) {
				return fmt.Errorf("rollout: spans of group %d, episode %d, turn %d: Row is %d, the episode has %d rows", t.Group,
					t.Index, k, turn.Row, len(t.Rows))
			}
			row := &t.Rows[turn.Row]
			start, end, ok := row.TurnAt(turns[turn.Row])
			turns[turn.Row]++
			if !ok || len(turn.Parsed.Sections) == 0 {
				continue
			}
			if policy == nil {
				return errors.New("rollout: spans: the policy is nil, must return where tokens end")
			}
			ends := policy.Ends(row.Tokens()[start:end])
			if len(ends) != end-start {
				return fmt.Errorf("rollout: spans of group %d, episode %d, turn %d: the policy returned the ends of %d of %d tokens", t.Group, t.Index, k, len(ends), end-start)
			}
			if err := row.mark(turn, start, ends); err != nil {
				return fmt.Errorf("rollout: spans of group %d, episode %d, turn %d: %w", t.Group, t.Index, k, err)
			}
		}
	}
	return nil
}

// mark adds the spans of one turn, whose tokens begin at start and end in the
// response's text at ends.
func (r *Row) mark(turn Turn, start int, ends []int) error {
	for name, text := range sorted(turn.Parsed.Sections) {
		from, ok := find(turn.Response, name, text)
		if !ok {
			continue
		}
		first, last := covering(ends, from, from+len(text))
		if err := r.AddSpan(name, start+first, start+last+1); err != nil {
			return err
		}
	}
	return nil
}

// find returns the byte position of a section's content in a response: after the
// tag of its name, else after any tag.
func find(response, name, text string) (int, bool) {
	if text == "" {
		return 0, false
	}
	if tag := strings.Index(response, "<"+name+">"); tag >= 0 {
		if at := strings.Index(response[tag:], text); at >= 0 {
			return tag + at, true
		}
	}
	for from := 0; ; {
		at := strings.Index(response[from:], text)
		if at < 0 {
			return 0, false
		}
		at += from
		if strings.HasSuffix(strings.TrimSpace(response[:at]), ">") {
			return at, true
		}
		from = at + 1
	}
}

// covering returns the first and the last token that overlap bytes [from, to).
func covering(ends []int, from, to int) (first, last int) {
	for first < len(ends)-1 && ends[first] <= from {
		first++
	}
	for last = first; last < len(ends)-1 && ends[last] < to; last++ {
	}
	return first, last
}

// sorted yields a map in the order of its keys.
func sorted[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
