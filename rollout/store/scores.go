package store

import (
	"errors"
	"fmt"
	"io"
	"os"

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
	Group, Index int // of the episode
	Row          int // index into Trajectory.Rows

	OldLogProbs []float32 // under the policy before the update, at the temperature of training
	Reference   []float32 // log-probs under the reference policy
	Values      []float32 // of the critic
	Entropy     []float32 // of the policy's next-token distribution, in nats
	Rewards     []float32 // that the estimator got: shaped, with the KL penalty if there is one
	Advantages  []float32 // of the estimator, before a filter scales them
	Returns     []float32

	Loss   []bool // tokens whose policy loss counts
	Value  []bool // tokens that the critic is trained on
	Scored []bool // tokens with OldLogProbs, Reference, Values and Entropy, which are 0 elsewhere
}

// scores is a row of the file.
type scores struct {
	Step        int64     `parquet:"step"`
	Group       int64     `parquet:"group"`
	Index       int64     `parquet:"index"`
	Row         int64     `parquet:"row"`
	OldLogProbs []float32 `parquet:"old_log_probs,list"`
	Reference   []float32 `parquet:"reference,list"`
	Values      []float32 `parquet:"values,list"`
	Entropy     []float32 `parquet:"entropy,list"`
	Rewards     []float32 `parquet:"rewards,list"`
	Advantages  []float32 `parquet:"advantages,list"`
	Returns     []float32 `parquet:"returns,list"`
	Loss        []bool    `parquet:"loss,list"`
	Value       []bool    `parquet:"value,list"`
	Scored      []bool    `parquet:"scored,list"`
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
			_, err = out.out.Write([]scores{encodeScores(step, s)})
		}
		if err != nil {
			err = fmt.Errorf("scores %d (group %d, index %d, row %d): %w", i, s.Group, s.Index, s.Row, err)
			break
		}
	}
	return out.close(err)
}

func encodeScores(step int, s *Scores) scores {
	return scores{
		int64(step), int64(s.Group), int64(s.Index), int64(s.Row),
		s.OldLogProbs, s.Reference, s.Values, s.Entropy, s.Rewards, s.Advantages, s.Returns, s.Loss, s.Value, s.Scored,
	}
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
	path := f.Name()
	in, err := rowsWithin[scores](table, most)
	var out []Scores
	for err == nil {
		var one [1]scores
		n := 0
		if n, err = next(in, one[:]); n == 0 {
			break
		}
		r := &one[0]
		s := Scores{
			int(r.Group), int(r.Index), int(r.Row), some(r.OldLogProbs), some(r.Reference), some(r.Values), some(r.Entropy),
			some(r.Rewards), some(r.Advantages), some(r.Returns), some(r.Loss), some(r.Value), some(r.Scored),
		}
		if invalid := s.check(); invalid != nil {
			return nil, fmt.Errorf("store: %s: scores %d: %w: %w", path, len(out), ErrFormat, invalid)
		}
		out = append(out, s)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("store: %s: scores %d: %w", path, len(out), err)
	}
	return out, nil
}

// some is nil for an empty list.
func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Len returns the number of tokens of the row.
func (s *Scores) Len() int {
	n := 0
	for _, length := range s.lengths() {
		n = max(n, length)
	}
	return n
}

func (s *Scores) lengths() [10]int {
	return [10]int{
		len(s.OldLogProbs), len(s.Reference), len(s.Values), len(s.Entropy), len(s.Rewards), len(s.Advantages),
		len(s.Returns),
		len(s.Loss), len(s.Value), len(s.Scored),
	}
}

// check refuses columns of different lengths, and a row that no episode can have.
func (s *Scores) check() error {
	if s.Row < 0 {
		return fmt.Errorf("row is %d, must not be negative", s.Row)
	}
	n := s.Len()
	for i, length := range s.lengths() {
		if length != 0 && length != n {
			names := [10]string{"old_log_probs", "reference", "values", "entropy", "rewards", "advantages", "returns", "loss",
				"value", "scored"}
			return fmt.Errorf("%s has %d numbers, must be %d or none", names[i], length, n)
		}
	}
	return nil
}
