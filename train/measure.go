package train

import (
	"log/slog"
	"strconv"
	"strings"

	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/diagnose"
	"vagen/train/track"
)

// measure writes the metrics of package rollout/diagnose and those registered by users. A
// metric that fails is logged and counted; the others are still written.
func (k *methods) measure(b *batch, m track.Metrics, log *slog.Logger) {
	if len(k.metrics) == 0 {
		return
	}
	in := b.diagnosis()
	for _, name := range k.metrics {
		if err := k.names.Metrics.Measure(m, in, name); err != nil {
			m["_failed/"+name] = 1
			log.Warn("a metric failed", "metric", name, "err", err)
		}
	}
}

// diagnosis returns a batch as the input of metrics: rows of tokens with rewards and
// advantages.
func (b *batch) diagnosis() *diagnose.Batch {
	d := &diagnose.Batch{
		Offsets: b.Rows.Offsets, ValueMask: b.Value, Advantage: b.result.Advantages, Value: b.values,
	}
	if b.values != nil {
		d.Target = b.result.Returns
	}
	for row := range b.Rows.Len() {
		t := b.Used[b.Of[row]]
		k := b.Steps.Turn[row]
		d.Group = append(d.Group, strconv.Itoa(t.Group))
		d.Trajectory = append(d.Trajectory, strconv.Itoa(t.Group)+"."+strconv.Itoa(t.Index))
		parts, text, cut := summarize(t, k)
		d.Parts, d.Text, d.Truncated = append(d.Parts, parts), append(d.Text, text), append(d.Truncated, cut)
		d.Score = append(d.Score, parts.Sum())
		d.Mask = t.Rows[k].Response(d.Mask)
		shaped := 0.0
		for i := b.Rows.Offsets[row]; i < b.Rows.Offsets[row+1]; i++ {
			shaped += float64(b.Steps.Rewards[i])
		}
		d.Shaped = append(d.Shaped, shaped)
	}
	return d
}

// summarize combines the turns of a row: the parts of their rewards, their reasoning (the
// whole response if there is none), and whether one of them was cut at a limit.
func summarize(t *rollout.Trajectory, row int) (parts reward.Parts, text string, cut bool) {
	at := map[string]int{}
	var b strings.Builder
	for _, turn := range t.Turns {
		if turn.Row != row {
			continue
		}
		for _, p := range turn.Reward {
			i, ok := at[p.Name]
			if !ok {
				i, at[p.Name] = len(parts), len(parts)
				parts = append(parts, reward.Part{Name: p.Name})
			}
			parts[i].Value += p.Value
		}
		words := turn.Parsed.Sections[reward.SectionThink]
		if words == "" {
			words = turn.Response
		}
		b.WriteString(words)
		b.WriteByte('\n')
		cut = cut || turn.Stop == "length"
	}
	return parts, b.String(), cut
}
