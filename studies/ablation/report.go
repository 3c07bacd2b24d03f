package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// measure is a scalar result of a run.
type measure struct {
	name string
	of   func(r result) float64
}

// measures are the metrics by which presets are compared: the final success rate, and
// the mean over training, which shows how fast it is reached. The first validation is
// that of the warm start and does not count.
var measures = []measure{
	{"success at the end", func(r result) float64 { return r.Points[len(r.Points)-1].Success }},
	{"mean success over training", func(r result) float64 {
		sum := 0.0
		for _, p := range r.Points[1:] {
			sum += p.Success
		}
		return sum / float64(len(r.Points)-1)
	}},
}

// reference is the preset that the others are compared with.
const reference = "vagen_full"

// byPreset returns of(r) for the runs of every preset, in the order of seeds.
func byPreset(results []result, of func(result) float64) map[string][]float64 {
	out := map[string][]float64{}
	for _, r := range results {
		out[r.Preset] = append(out[r.Preset], of(r))
	}
	return out
}

// report writes the page and its plot.
func report(o options, results []result, excluded []uint64, s setting) error {
	path := o.report
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	plot := strings.TrimSuffix(path, filepath.Ext(path)) + ".png"
	if err := draw(plot, curves(results)); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(introduction(s, len(results)/len(presets), excluded))
	var verdicts []string
	for _, m := range measures {
		verdicts = append(verdicts, table(&b, results, m)...)
	}
	fmt.Fprintf(&b, "\n![success over training](%s)\n\nLines are means over seeds, bars 95 %% confidence intervals.\n", filepath.Base(plot))
	b.WriteString("\n## Conclusions\n\n")
	for _, v := range verdicts {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	b.WriteString(limits)
	b.WriteString(timing(results, o.note))
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func curves(results []result) []curve {
	var out []curve
	for _, preset := range presets {
		c := curve{name: preset}
		for k, p := range results[0].Points {
			c.steps = append(c.steps, p.Step)
			c.at = append(c.at, estimateOf(byPreset(results, func(r result) float64 { return r.Points[k].Success })[preset]))
		}
		out = append(out, c)
	}
	return out
}

// table writes the comparison of the presets by one measure, and returns a sentence for
// each preset compared with the reference.
func table(b *strings.Builder, results []result, m measure) (verdicts []string) {
	values := byPreset(results, m.of)
	ref := values[reference]
	var others []string
	var diffs []estimate
	var p []float64
	for _, preset := range presets {
		if preset != reference {
			d, x := paired(ref, values[preset])
			others, diffs, p = append(others, preset), append(diffs, d), append(p, x)
		}
	}
	corrected := holm(p)
	fmt.Fprintf(b, "\n## %s\n\n| preset | mean | 95 %% CI | runs | %s − preset | 95 %% CI | p | p (Holm) |\n|---|---|---|---|---|---|---|---|\n",
		strings.ToUpper(m.name[:1])+m.name[1:], reference)
	for _, preset := range presets {
		e := estimateOf(values[preset])
		fmt.Fprintf(b, "| %s | %.3f | %.3f to %.3f | %s |", preset, e.mean, e.low, e.high, list(values[preset]))
		k := slices.Index(others, preset)
		if k < 0 {
			b.WriteString(" | | | |\n")
			continue
		}
		fmt.Fprintf(b, " %+.3f | %+.3f to %+.3f | %s | %s |\n", diffs[k].mean, diffs[k].low, diffs[k].high, pValue(p[k]), pValue(corrected[k]))
		verdicts = append(verdicts, verdict(m.name, preset, diffs[k], corrected[k]))
	}
	return verdicts
}

// verdict states the result of a comparison in a sentence.
func verdict(measure, preset string, d estimate, p float64) string {
	switch {
	case p >= level:
		return fmt.Sprintf("%s, %s against %s: **not significant** (p %s): these runs do not distinguish them.", measure, reference, preset, relation(p))
	case d.mean > 0:
		return fmt.Sprintf("%s, %s against %s: higher by %.3f (p %s).", measure, reference, preset, d.mean, relation(p))
	}
	return fmt.Sprintf("%s, %s against %s: **lower** by %.3f (p %s).", measure, reference, preset, -d.mean, relation(p))
}

// pValue formats a p-value for tables.
func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// relation formats a p-value with "=" or "<", to follow the letter p.
func relation(p float64) string {
	if p < 0.001 {
		return pValue(p)
	}
	return "= " + pValue(p)
}

func list(x []float64) string {
	var parts []string
	for _, v := range x {
		parts = append(parts, fmt.Sprintf("%.2f", v))
	}
	return strings.Join(parts, " ")
}

func timing(results []result, note string) string {
	var b strings.Builder
	b.WriteString("\n## Wall time\n\n| preset | mean seconds per run |\n|---|---|\n")
	total := 0.0
	for _, preset := range presets {
		x := byPreset(results, func(r result) float64 { return r.Seconds })[preset]
		fmt.Fprintf(&b, "| %s | %.0f |\n", preset, estimateOf(x).mean)
	}
	for _, r := range results {
		total += r.Seconds + r.Warm
	}
	fmt.Fprintf(&b, "\nAll %d runs and their warm starts took %.0f minutes, without the warm starts\nthat failed. The first run of a process includes compilation. %s\n", len(results), total/60, note)
	return b.String()
}
