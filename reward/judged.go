package reward

import (
	"maps"
	"slices"
)

// Reading is a claim with the relations that a judge read in its text.
type Reading struct {
	Claim     Claim      // the claim
	Relations []Relation // the relations that the judge read in it
	OK        bool       // the judge's answer has a list; if not, the score is 0 or the caller's choice
}

// A Scorer compares readings with the truth of their claims. Scores are between 0
// and 1, or a penalty below 0; the claim's weight is not included.
type Scorer interface {
	// Score returns one score per reading of a step, in order. A scorer that stores
	// earlier claims adds those of the whole step first.
	Score(step []Reading) []float64
	// Compare returns the score of claimed relations against true ones, from 0 to 1,
	// without penalties. It stores nothing.
	Compare(said, truth []Relation) float64
}

var (
	_ Scorer = (*AssignmentScorer)(nil)
	_ Scorer = (*RepetitionScorer)(nil)
)

// AssignmentScorer compares objects by half agreements:
//
//	Σ w·F1 / Σ w
//
// over the names that have a weight and occur among the claimed or true objects, with
// F1 of Similarity. If weights are given and there are neither claimed nor true
// objects, the score is 1; if only other names occur, it is Other. Objects that a
// judge lists without any direction are left out.
type AssignmentScorer struct {
	Weights map[string]float64 // by object name, e.g. target 0.7 and hole 0.3
	Other   float64            // 0 in VAGEN legacy, 1 in next
	// Excess subtracts a match for each claimed object beyond the number of true ones of its
	// name, so that a list of guesses earns no more than one guess. VAGEN does not.
	Excess bool
}

// FrozenLakeScorer returns the weights that the legacy system used for
// FrozenLake: target 0.7, hole 0.3.
func FrozenLakeScorer() *AssignmentScorer {
	return &AssignmentScorer{Weights: map[string]float64{"target": 0.7, "hole": 0.3}}
}

// Score implements Scorer.
func (s *AssignmentScorer) Score(step []Reading) []float64 {
	scores := make([]float64, len(step))
	for i, r := range step {
		if r.OK {
			scores[i] = s.Compare(r.Relations, r.Claim.Truth)
		}
	}
	return scores
}

// Compare implements Scorer.
func (s *AssignmentScorer) Compare(said, truth []Relation) float64 {
	said, truth = placed(said), placed(truth)
	if len(said) == 0 && len(truth) == 0 && len(s.Weights) > 0 {
		return 1
	}
	var sum, total float64
	for _, name := range slices.Sorted(maps.Keys(s.Weights)) {
		a, b := named(said, name), named(truth, name)
		if len(a) == 0 && len(b) == 0 {
			continue
		}
		w := s.Weights[name]
		sum += w * F1(s.matches(Similarity(a, b), a, b), len(a), len(b))
		total += w
	}
	if total == 0 {
		return s.Other
	}
	return sum / total
}

// matches subtracts the excess from a number of matches.
func (s *AssignmentScorer) matches(n float64, said, truth []Relation) float64 {
	if !s.Excess {
		return n
	}
	return n - float64(max(0, len(said)-len(truth)))
}

// RepetitionScorer compares objects exactly and penalises repeated texts. The score is
// the mean over Objects of the F1 of exactMatches, where an object that is neither
// claimed nor true counts 0. A claim whose text is among the TopK most frequent of
// its section so far, and whose F1 values sum to less than Enough, scores −Penalty.
type RepetitionScorer struct {
	Objects []string // names compared
	Keep    int      // how many texts are stored for each section
	TopK    int      // how many of them, by frequency, are penalised; with 0 no text is stored
	Enough  float64  // sum of F1 values from which a frequent text is not penalised
	Penalty float64  // subtracted score, positive

	texts map[string]*topStrings // by section
}

// SokobanScorer returns the settings that the legacy system used for Sokoban:
// target and box, 1000 texts kept, the 5 most frequent punished by 0.1 below a
// sum of 0.7.
func SokobanScorer() *RepetitionScorer {
	return &RepetitionScorer{Objects: []string{"target", "box"}, Keep: 1000, TopK: 5, Enough: 0.7, Penalty: 0.1}
}

// Score implements Scorer. The texts of the step count towards the most frequent
// ones before any is scored.
func (s *RepetitionScorer) Score(step []Reading) []float64 {
	var stock map[string][]string
	if s.TopK > 0 {
		stock = s.frequent(step)
	}
	scores := make([]float64, len(step))
	for i, r := range step {
		sum := 0.0
		if r.OK {
			sum = s.sum(r.Relations, r.Claim.Truth)
		}
		scores[i] = sum / float64(max(1, len(s.Objects)))
		if sum < s.Enough && slices.Contains(stock[r.Claim.Section], r.Claim.Text) {
			scores[i] = -s.Penalty
		}
	}
	return scores
}

// Compare implements Scorer.
func (s *RepetitionScorer) Compare(said, truth []Relation) float64 {
	return s.sum(said, truth) / float64(max(1, len(s.Objects)))
}

// sum adds the F1 values of the objects.
func (s *RepetitionScorer) sum(said, truth []Relation) float64 {
	sum := 0.0
	for _, name := range s.Objects {
		said, truth := named(said, name), named(truth, name)
		if len(said)+len(truth) > 0 {
			sum += F1(float64(exactMatches(said, truth)), len(said), len(truth))
		}
	}
	return sum
}

// frequent stores the texts of a step and returns the most frequent ones, by section.
func (s *RepetitionScorer) frequent(step []Reading) map[string][]string {
	if s.texts == nil {
		s.texts = make(map[string]*topStrings)
	}
	for _, r := range step {
		if s.texts[r.Claim.Section] == nil {
			s.texts[r.Claim.Section] = new(topStrings)
		}
		s.texts[r.Claim.Section].add(r.Claim.Text, 1)
	}
	stock := make(map[string][]string)
	for section, texts := range s.texts {
		texts.trim(s.Keep)
		stock[section] = texts.top(s.TopK)
	}
	return stock
}

// placed returns the objects with at least one direction.
func placed(list []Relation) []Relation {
	if !slices.ContainsFunc(list, func(r Relation) bool { return r.bare }) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(r Relation) bool { return r.bare })
}

func named(list []Relation, name string) []Relation {
	out := make([]Relation, 0, len(list))
	for _, r := range list {
		if r.Object == name {
			out = append(out, r)
		}
	}
	return out
}
