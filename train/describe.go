package train

import (
	"time"

	"vagen/policy"
	"vagen/rollout"
	"vagen/train/track"
)

// stopwatch measures the parts of a step.
type stopwatch struct {
	start, last time.Time
	parts       map[string]time.Duration
}

func newStopwatch() *stopwatch {
	now := time.Now()
	return &stopwatch{start: now, last: now, parts: map[string]time.Duration{}}
}

// lap adds the time since the last lap to a part.
func (c *stopwatch) lap(part string) {
	now := time.Now()
	c.parts[part] += now.Sub(c.last)
	c.last = now
}

// write adds the parts to metrics, and the remaining time as time/rest.
func (c *stopwatch) write(m track.Metrics) {
	total := time.Since(c.start)
	rest := total
	for part, d := range c.parts {
		m["time/"+part] = d.Seconds()
		rest -= d
	}
	m["time/rest"] = rest.Seconds()
	m["time/step"] = total.Seconds()
}

// describe writes metrics of trajectories: success, returns by part, lengths, ends.
func describe(m track.Metrics, prefix string, ts []*rollout.Trajectory) {
	c := rollout.Count(ts)
	m[prefix+"episodes"] = float64(c.Episodes)
	m[prefix+"unusable"] = float64(c.Episodes - c.Usable)
	for end, n := range c.ByEnd {
		m[prefix+"end/"+string(end)] = float64(n)
	}
	if c.Usable == 0 {
		return
	}
	n := float64(c.Usable)
	m[prefix+"success"] = float64(c.Success) / n
	m[prefix+"turns"] = float64(c.Turns) / n
	m[prefix+"response_tokens"], m[prefix+"context_tokens"] = float64(c.Tokens), float64(c.Context)
	for name, count := range map[string]int{"retried": c.Retried, "observations_cut": c.Cut, "summaries": c.Summaries,
		"forced_tokens": c.Forced} {
		if count > 0 {
			m[prefix+name] = float64(count)
		}
	}
	if c.Rows > c.Usable {
		m[prefix+"rows"] = float64(c.Rows) / n
	}
	parts := track.Metrics{}
	var total, format, cut float64
	for _, t := range ts {
		if !t.End.Usable() {
			continue
		}
		for _, turn := range t.Turns {
			for _, p := range turn.Reward {
				parts[p.Name] += p.Value
				total += p.Value
			}
			if turn.Parsed.FormatCorrect {
				format++
			}
			if turn.Stop == policy.StopLength {
				cut++
			}
		}
	}
	for name, x := range parts {
		m[prefix+"reward/"+name] = x / n
	}
	m[prefix+"score"] = total / n
	if c.Turns > 0 {
		m[prefix+"format_correct"], m[prefix+"truncated"] = format/float64(c.Turns), cut/float64(c.Turns)
	}
}

// describeResponses writes the share of the turns of usable episodes whose response is the
// most frequent one, word for word.
func describeResponses(m track.Metrics, ts []*rollout.Trajectory) {
	count := map[string]int{}
	turns, most := 0, 0
	for _, t := range ts {
		if !t.End.Usable() {
			continue
		}
		for i := range t.Turns {
			turns++
			text := t.Turns[i].Response
			count[text]++
			most = max(most, count[text])
		}
	}
	if turns > 0 {
		m["train/most_frequent_response"] = float64(most) / float64(turns)
	}
}
