package store

import (
	"fmt"
	"os"
	"reflect"

	"vagen/internal/field"
	"vagen/internal/regular"
)

const (
	scoresKey     = "vagen.scores"
	scoresVersion = "1"

	maxScores = 1 << 26
)

// Scores are the numbers that a training step computed for one row of an episode, before
// its update: one entry per token of the row, or nil where the run computes none. The
// number at a token refers to the state before it; a row's first token has none.
type Scores struct {
	Group int `parquet:"group"` // of the episode
	Index int `parquet:"index"` // of the episode
	Row   int `parquet:"row"`   // index into Trajectory.Rows

	OldLogProbs []float32 `parquet:"old_log_probs,list"` // under the policy before the update, at training's temperature
	Reference   []float32 `parquet:"reference,list"`     // log-probs under the reference policy
	Values      []float32 `parquet:"values,list"`        // of the critic
	Entropy     []float32 `parquet:"entropy,list"`       // of the policy's next-token distribution, in nats
	Rewards     []float32 `parquet:"rewards,list"`       // that the estimator got: shaped, with any KL penalty
	Advantages  []float32 `parquet:"advantages,list"`    // of the estimator, before a filter scales them
	Returns     []float32 `parquet:"returns,list"`

	Loss   []bool `parquet:"loss,list"`   // tokens whose policy loss counts
	Value  []bool `parquet:"value,list"`  // tokens that the critic is trained on
	Scored []bool `parquet:"scored,list"` // tokens with OldLogProbs, Reference, Values and Entropy; others have 0
}

// scores is a row of the file.
type scores struct {
	Step int64 `parquet:"step"`
	Scores
}

// SaveScores writes the scores of a training step, a row of the file for each row of an
// episode. The file gets its name only when it is complete.
func SaveScores(path string, step int, all []Scores) error {
	out, err := createTable[scores](path, scoresKey, scoresVersion)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		if err = s.check(); err == nil {
			_, err = out.out.Write([]scores{{int64(step), *s}})
		}
		if err != nil {
			err = fmt.Errorf("scores %d (group %d, index %d, row %d): %w", i, s.Group, s.Index, s.Row, err)
			break
		}
	}
	return out.close(err)
}

// LoadScores reads a file of SaveScores. The error wraps ErrFormat if the file is
// damaged, or not one of SaveScores.
func LoadScores(path string) ([]Scores, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return ReadScores(f, 0)
}

// ReadScores is LoadScores of an open file, which it closes. most limits the memory that its
// columns take, as Reader.Limit does.
func ReadScores(f *os.File, most int64) ([]Scores, error) {
	table, err := readTable(f, scoresKey, scoresVersion, maxScores)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Scores
	for r, err := range each[scores](table, most) {
		if err == nil {
			for _, list := range r.columns {
				if list.Len() == 0 {
					list.SetZero()
				}
			}
			if err = r.check(); err != nil {
				err = fmt.Errorf("%w: %w", ErrFormat, err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("store: %s: scores %d: %w", f.Name(), len(out), err)
		}
		out = append(out, r.Scores)
	}
	return out, nil
}

// columns yields the lists of numbers by their names.
func (s *Scores) columns(yield func(string, reflect.Value) bool) {
	v := reflect.ValueOf(s).Elem()
	for name, f := range field.Named(v.Type(), "parquet") {
		if list := v.FieldByIndex(f.Index); list.Kind() == reflect.Slice && !yield(name, list) {
			return
		}
	}
}

// Len returns the number of tokens of the row.
func (s *Scores) Len() int {
	n := 0
	for _, list := range s.columns {
		n = max(n, list.Len())
	}
	return n
}

// check refuses columns of different lengths, and a row that no episode can have.
func (s *Scores) check() error {
	if s.Row < 0 {
		return fmt.Errorf("row is %d, must not be negative", s.Row)
	}
	n := s.Len()
	for name, list := range s.columns {
		if list.Len() != 0 && list.Len() != n {
			return fmt.Errorf("%s has %d numbers, must be %d or none", name, list.Len(), n)
		}
	}
	return nil
}
