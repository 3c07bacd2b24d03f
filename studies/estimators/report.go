package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"vagen/internal/stats"
	"vagen/rollout/evaluate"
	"vagen/train/credit"
)

// line is an estimator's row in the table.
type line struct {
	name       string
	end, whole evaluate.Estimate // success in the last five steps, and in all
	pearson    []float64         // by seed; empty where claims cannot be compared
	sign       []float64
}

// lines are in the order of success.
func lines(r *results) (out []line) {
	for _, name := range append(slices.Clone(compared), credit.ReturnMinusMean) {
		l := line{name: name}
		var end, whole []float64
		for _, success := range r.success[name] {
			end = append(end, stat.Mean(success[max(0, len(success)-5):], nil))
			whole = append(whole, stat.Mean(success, nil))
		}
		for _, table := range r.credit {
			for _, of := range table.Estimators {
				if of.Name == name {
					l.pearson, l.sign = known(l.pearson, of.All.Pearson), known(l.sign, of.All.Sign)
				}
			}
		}
		if end != nil {
			l.end, l.whole = stats.EstimateOf(end), stats.EstimateOf(whole)
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out[:len(compared)], func(a, b line) int { return cmp.Compare(b.whole.Mean, a.whole.Mean) })
	return out
}

// known appends a number unless it is unknown: constant claims have no correlation, and few turns neither.
func known(to []float64, x credit.Figure) []float64 {
	if v := float64(x.Value); !math.IsNaN(v) {
		to = append(to, v)
	}
	return to
}

func interval(e evaluate.Estimate) string { return fmt.Sprintf("%.3f ± %.3f", e.Mean, e.High-e.Mean) }

func agreement(x []float64) string {
	if len(x) < 2 {
		return ""
	}
	return interval(stats.EstimateOf(x))
}

// page is the document.
func page(o options, r *results) []byte {
	var b bytes.Buffer
	turns := 0
	for _, c := range r.credit {
		turns += c.Decided
	}
	fmt.Fprintf(&b, `# Estimators compared

`+"`go run ./studies/estimators`"+` wrote this page. A table (logits and a value for each state, no network) plays
FrozenLake as text on %d maps: %d training steps of 128 episodes, 16 start states in groups of 8, at most 20 turns;
reward 1 for the goal. Each estimator has %d seeds, and all the same settings. The logits move by the same length in
each update, because estimators differ in scale.

- **Success**: share of episodes that reach the goal, in the last five steps, and over all steps: the sooner a policy
  learns, the more.
- **Agreement**: for each seed, %d episodes of one step of a half-trained policy (%s, step %d) are continued
  from every turn, 16 times after the response that was given and 16 times after a fresh one. The difference is what
  the response was worth. Of each estimator Pearson's correlation of its claims with that, and the share of equal
  signs, over the turns whose difference is certain (%d in all seeds). "%s" is the baseline that gives every turn of
  an episode the same. Estimators that read what is not recorded have none.

Numbers are means over seeds with intervals of 95 %% (Student's t).

| estimator | success at the end | success over all steps | correlation | equal signs |
| --- | --- | --- | --- | --- |
`, lakes, o.steps, o.seeds, o.measured, half, o.steps/2+1, turns, credit.ReturnMinusMean)
	for _, l := range lines(r) {
		if l.name == credit.ReturnMinusMean {
			fmt.Fprintf(&b, "| %s | | | %s | %s |\n", l.name, agreement(l.pearson), agreement(l.sign))
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			l.name, interval(l.end), interval(l.whole), agreement(l.pearson), agreement(l.sign))
	}
	return b.Bytes()
}
