package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/stats"
	"vagen/rollout/evaluate"
)

// measure is a number that a run has as a result.
type measure struct {
	name string
	of   func(r result) float64
}

// measures are those by which presets are compared: the final success rate, and
// the mean over training, which shows how fast it is reached. The first validation is
// that of the warm start and does not count.
var measures = []measure{
	{"success at the end", func(r result) float64 { return last(r).Success }},
	{"mean success over training", func(r result) float64 {
		sum := 0.0
		for _, p := range r.Points[1:] {
			sum += p.Success
		}
		return sum / float64(len(r.Points)-1)
	}},
}

func last(r result) point { return r.Points[len(r.Points)-1] }

// contrast is a difference that a study tests: a minus b.
type contrast struct{ a, b string }

// order holds the contrasts of neighbours in the paper's order, which lets expect them above 0, and those of presets
// with and without the prediction of observations. A study tests those whose runs it has.
var order = []contrast{{full, base}, {base, grpo}, {base, turnPPO}, {grpo, vanilla}, {turnPPO, vanilla},
	{base + echoing, base}, {full + echoing, full}, {full, base + echoing}, {full + echoing, base + echoing}}

// tested returns the contrasts whose runs exist.
func tested(values map[string][]float64) []contrast {
	return slices.DeleteFunc(slices.Clone(order), func(c contrast) bool {
		return values[c.a] == nil || values[c.b] == nil
	})
}

// byPreset returns of(r) for the runs of every preset, in the order of seeds.
func byPreset(results []result, of func(result) float64) map[string][]float64 {
	out := map[string][]float64{}
	for _, r := range results {
		out[r.Preset] = append(out[r.Preset], of(r))
	}
	return out
}

// report writes the page and its plots. Without results the page is the plan of the study.
func report(o options, results []result, s setting) error {
	path := o.report
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(introduction(s, o))
	if len(results) == 0 {
		b.WriteString("\n## Results\n\nThere are none yet: this page is the plan, written before the runs.\n")
		return os.WriteFile(path, []byte(b.String()), 0o644)
	}
	stem := strings.TrimSuffix(path, filepath.Ext(path))
	if err := drawAll(stem, results, s.presets); err != nil {
		return err
	}
	name := filepath.Base(stem)
	for _, m := range measures {
		table(&b, results, m, s.presets)
	}
	fmt.Fprintf(&b, "\n![success over training](%s.png)\n\nLines are means over seeds, bars 95 %% confidence intervals.\n",
		name)
	seeing(&b, results, s.presets)
	fmt.Fprintf(&b, "\n![accuracy of statements over training](%s-seeing.png)\n", name)
	b.WriteString(limits)
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// drawAll draws the plots of success, and of the accuracy of statements with and without pay.
func drawAll(stem string, results []result, compared []string) error {
	success := chart{y: "success on unseen maps", max: 1}
	for _, preset := range compared {
		success.curves = append(success.curves, curveOf(results, preset, preset, ink(preset), func(p point) float64 {
			return p.Success
		}))
	}
	if err := success.draw(stem + ".png"); err != nil {
		return err
	}
	told := chart{y: "on unseen maps", max: 1}
	for i, line := range []struct {
		name string
		of   func(p point) float64
	}{
		{"observation", func(p point) float64 { return p.Observation }},
		{"prediction", func(p point) float64 { return p.Prediction }},
		{"success", func(p point) float64 { return p.Success }},
	} {
		for _, preset := range pair(compared) {
			c := curveOf(results, preset, line.name+", "+preset, i+2, line.of)
			c.dashed = preset == base
			told.curves = append(told.curves, c)
		}
	}
	return told.draw(stem + "-seeing.png")
}

// ink is the colour of a preset.
func ink(preset string) int { return slices.Index(append(presets, base+echoing, full+echoing), preset) }

// pair are the two presets whose statements are drawn.
func pair(compared []string) []string {
	if slices.Contains(compared, base+echoing) {
		return []string{base, base + echoing}
	}
	return []string{base, full}
}

func curveOf(results []result, preset, name string, ink int, of func(p point) float64) curve {
	c := curve{name: name, ink: ink}
	for k, p := range results[0].Points {
		c.steps = append(c.steps, p.Step)
		c.at = append(c.at, stats.EstimateOf(byPreset(results, func(r result) float64 { return of(r.Points[k]) })[preset]))
	}
	return c
}

// table writes the presets' results by one measure, and the tests of their order.
func table(b *strings.Builder, results []result, m measure, compared []string) {
	values := byPreset(results, m.of)
	fmt.Fprintf(b, "\n## %s\n\n| preset | mean | 95 %% CI | runs |\n|---|---|---|---|\n", strings.ToUpper(m.name[:1])+
		m.name[1:])
	for _, preset := range compared {
		e := stats.EstimateOf(values[preset])
		fmt.Fprintf(b, "| %s | %.3f | %.3f to %.3f | %s |\n", preset, e.Mean, e.Low, e.High, list(values[preset]))
	}
	var tests []test
	for _, c := range tested(values) {
		tests = append(tests, newTest(c.a+" − "+c.b, values[c.a], values[c.b]))
	}
	writeTests(b, tests)
}

// seeing writes what the agent's statements are worth with and without pay.
func seeing(b *strings.Builder, results []result, compared []string) {
	b.WriteString("\n## Seeing\n\n| | preset | warm start | end | 95 % CI | runs at the end |\n|---|---|---|---|---|---|\n")
	var tests []test
	for _, m := range []struct {
		name string
		of   func(p point) float64
	}{
		{"observation, first turn", func(p point) float64 { return p.Observation }},
		{"prediction, first turn", func(p point) float64 { return p.Prediction }},
		{"observation, all turns", func(p point) float64 { return p.All }},
		{"well-formed responses", func(p point) float64 { return p.Format }},
	} {
		first := byPreset(results, func(r result) float64 { return m.of(r.Points[0]) })
		end := byPreset(results, func(r result) float64 { return m.of(last(r)) })
		for _, preset := range compared {
			e := stats.EstimateOf(end[preset])
			fmt.Fprintf(b, "| %s | %s | %.3f | %.3f | %.3f to %.3f | %s |\n", m.name, preset,
				stats.EstimateOf(first[preset]).Mean, e.Mean, e.Low, e.High, list(end[preset]))
		}
		if !strings.HasSuffix(m.name, "first turn") {
			continue
		}
		for _, c := range tested(end) {
			if strings.HasPrefix(c.b, "vagen_") {
				tests = append(tests, newTest(m.name+": "+c.a+" − "+c.b, end[c.a], end[c.b]))
			}
		}
		for _, preset := range []string{full, base, full + echoing, base + echoing} {
			if end[preset] != nil {
				tests = append(tests, newTest(m.name+": "+preset+", end − warm start", end[preset], first[preset]))
			}
		}
	}
	writeTests(b, tests)
}

// test is a paired t-test between runs of one seed.
type test struct {
	name string
	diff evaluate.Estimate
	p    float64
}

func newTest(name string, a, b []float64) test {
	d, p := stats.Paired(a, b)
	return test{name, d, p}
}

// writeTests writes a family of tests with Holm's correction.
func writeTests(b *strings.Builder, tests []test) {
	p := make([]float64, len(tests))
	for i, t := range tests {
		p[i] = t.p
	}
	corrected := stats.Holm(p)
	b.WriteString("\n| difference | mean | 95 % CI | p | p (Holm) | |\n|---|---|---|---|---|---|\n")
	for i, t := range tests {
		fmt.Fprintf(b, "| %s | %+.3f | %+.3f to %+.3f | %s | %s | %s |\n", t.name, t.diff.Mean, t.diff.Low, t.diff.High,
			pValue(t.p), pValue(corrected[i]), verdict(t.diff, corrected[i]))
	}
}

// verdict states the result of a test.
func verdict(d evaluate.Estimate, p float64) string {
	switch {
	case p >= stats.Level:
		return "not significant"
	case d.Mean > 0:
		return "higher"
	}
	return "**lower**"
}

// pValue formats a p-value.
func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

func list(x []float64) string {
	var parts []string
	for _, v := range x {
		parts = append(parts, fmt.Sprintf("%.2f", v))
	}
	return strings.Join(parts, " ")
}
