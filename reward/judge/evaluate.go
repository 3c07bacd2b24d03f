package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"vagen/internal/jsontext"
	"vagen/reward"
	"vagen/reward/judge/internal/read"
)

// Reader extracts the relations that claims state, in order. A Reading that is not OK
// could not be made, and its claim has no score.
type Reader interface {
	Read(ctx context.Context, claims []reward.Claim) ([]reward.Reading, error)
}

var (
	_ Reader = (*Rules)(nil)
	_ Reader = (*Model)(nil)
)

// ErrLabels is wrapped by errors about the contents of a labelled set.
var ErrLabels = errors.New("not a set of labelled descriptions")

// Labelled is a description of a state with what it asserts.
type Labelled struct {
	ID       string            `json:"id"`
	Env      string            `json:"env"`     // frozenlake or sokoban
	Section  string            `json:"section"` // observation or prediction
	Category string            `json:"category"`
	Form     string            `json:"form"`
	Text     string            `json:"text"`
	Truth    []reward.Relation `json:"truth"`     // of all objects
	Asserted []reward.Relation `json:"relations"` // by the text
}

// ReadLabelled reads a set: a JSON object with the list "cases". The error wraps
// ErrLabels if it has no cases, or one of another environment or section.
func ReadLabelled(r io.Reader) ([]Labelled, error) {
	var set struct {
		Cases []Labelled `json:"cases"`
	}
	if r == nil {
		return nil, fmt.Errorf("judge: %w: the reader is nil", ErrLabels)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	if err := jsontext.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("judge: %w: %w", ErrLabels, err)
	}
	if len(set.Cases) == 0 {
		return nil, fmt.Errorf("judge: %w: cases is empty", ErrLabels)
	}
	for i, c := range set.Cases {
		if !read.Knows(c.Env) {
			return nil, fmt.Errorf("judge: %w: cases[%d].env is %q, must be frozenlake or sokoban", ErrLabels, i, c.Env)
		}
		if c.Section != reward.SectionObservation && c.Section != reward.SectionPrediction {
			return nil, fmt.Errorf("judge: %w: cases[%d].section is %q, must be %s or %s", ErrLabels, i, c.Section,
				reward.SectionObservation, reward.SectionPrediction)
		}
	}
	return set.Cases, nil
}

// Quality is how well descriptions were read.
type Quality struct {
	Cases      int `json:"cases"`
	Unread     int `json:"unread"`      // no reading: the judge failed, or its answer could not be parsed
	ExactLists int `json:"exact_lists"` // exactly the relations of the label
	PaidMore   int `json:"paid_more"`   // scored above what the label's relations score

	// Relations: stated by both, by the reading, by the label.
	Both   int `json:"both"`
	Stated int `json:"stated"`
	Label  int `json:"label"`
	// ScoreError is the mean absolute difference of the scores of reading and label.
	ScoreError float64 `json:"score_error"`
}

// Precision is the share of the relations read that the labels have.
func (q *Quality) Precision() float64 { return float64(q.Both) / math.Max(1, float64(q.Stated)) }

// Recall is the share of the labels' relations that were read.
func (q *Quality) Recall() float64 { return float64(q.Both) / math.Max(1, float64(q.Label)) }

// F1 is the harmonic mean of Precision and Recall; 1 without any relation.
func (q *Quality) F1() float64 { return reward.F1(float64(q.Both), q.Stated, q.Label) }

// Evaluation is the quality of a judge on a labelled set.
type Evaluation struct {
	All        Quality            `json:"all"`
	Categories map[string]Quality `json:"categories"`
	Forms      map[string]Quality `json:"forms"`
}

// evaluated is how many claims are given to a judge at once, as in a training step.
const evaluated = 64

// Evaluate compares what a judge reads with the labels. Relations are equal if object
// and both directions are; those without a direction do not count. Scores are those of
// a reward.AssignmentScorer in which each kind of object weighs the same. A claim that
// was not read counts in Unread, and its relations as missed.
func Evaluate(ctx context.Context, judge Reader, set []Labelled) (*Evaluation, error) {
	if judge == nil {
		return nil, errors.New("judge: evaluate: the judge is nil")
	}
	e := &Evaluation{Categories: map[string]Quality{}, Forms: map[string]Quality{}}
	for batch := range slices.Chunk(set, evaluated) {
		claims := make([]reward.Claim, len(batch))
		for i, c := range batch {
			claims[i] = reward.Claim{Env: c.Env, Section: c.Section, Text: c.Text, Truth: c.Truth}
		}
		readings, err := judge.Read(ctx, claims)
		if err != nil {
			return nil, err
		}
		if len(readings) != len(batch) {
			return nil, fmt.Errorf("judge: evaluate: %T returned %d readings of %d claims", judge, len(readings), len(batch))
		}
		for i := range batch {
			q := compare(&batch[i], &readings[i])
			e.All.add(q)
			for _, by := range []struct {
				into map[string]Quality
				key  string
			}{{e.Categories, batch[i].Category}, {e.Forms, batch[i].Form}} {
				sum := by.into[by.key]
				sum.add(q)
				by.into[by.key] = sum
			}
		}
	}
	e.All.finish()
	for _, m := range []map[string]Quality{e.Categories, e.Forms} {
		for key, q := range m {
			q.finish()
			m[key] = q
		}
	}
	return e, nil
}

// compare returns the quality of one reading; ScoreError is a sum.
func compare(c *Labelled, r *reward.Reading) Quality {
	q := Quality{Cases: 1}
	said, label := counted(r.Relations), counted(c.Asserted)
	if !r.OK {
		said, q.Unread = nil, 1
	}
	for at, n := range said {
		q.Stated += n
		q.Both += min(n, label[at])
	}
	for _, n := range label {
		q.Label += n
	}
	if r.OK && q.Both == q.Stated && q.Both == q.Label {
		q.ExactLists = 1
	}
	if !r.OK || len(c.Truth) == 0 {
		return q
	}
	weights := make(map[string]float64)
	for _, t := range c.Truth {
		weights[t.Object] = 1
	}
	scorer := reward.AssignmentScorer{Weights: weights}
	got, want := scorer.Compare(r.Relations, c.Truth), scorer.Compare(c.Asserted, c.Truth)
	q.ScoreError = math.Abs(got - want)
	if got > want+1e-9 {
		q.PaidMore = 1
	}
	return q
}

// counted counts the relations that state a direction.
func counted(list []reward.Relation) map[[3]string]int {
	out := make(map[[3]string]int, len(list))
	for _, r := range list {
		if r.Vertical != "" || r.Horizontal != "" {
			out[[3]string{r.Object, r.Vertical, r.Horizontal}]++
		}
	}
	return out
}

func (q *Quality) add(o Quality) {
	q.Cases += o.Cases
	q.Unread += o.Unread
	q.ExactLists += o.ExactLists
	q.PaidMore += o.PaidMore
	q.Both += o.Both
	q.Stated += o.Stated
	q.Label += o.Label
	q.ScoreError += o.ScoreError
}

func (q *Quality) finish() {
	if n := q.Cases - q.Unread; n > 0 {
		q.ScoreError /= float64(n)
	}
}
