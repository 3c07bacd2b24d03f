package reward

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimilarityIsTheBestAssignment(t *testing.T) {
	// Every assignment is tried on small lists of three values per direction.
	vertical, horizontal := []string{"", Above, Below}, []string{"", Left, Right}
	var all []Relation
	for _, v := range vertical {
		for _, h := range horizontal {
			all = append(all, Relation{Vertical: v, Horizontal: h})
		}
	}
	state := uint64(3)
	pick := func(n int) []Relation {
		list := make([]Relation, n)
		for i := range list {
			state = state*6364136223846793005 + 1442695040888963407
			list[i] = all[int(state>>33)%len(all)]
		}
		return list
	}
	for round := range 600 {
		said, truth := pick(round%5), pick(round/5%5)
		require.Equal(t, exhaustive(said, truth), Similarity(said, truth), "%v %v", said, truth)
		require.Equal(t, Similarity(said, truth), Similarity(truth, said))
	}
}

func exhaustive(said, truth []Relation) float64 {
	if len(said) == 0 {
		return 0
	}
	best := exhaustive(said[1:], truth)
	for j, tr := range truth {
		rest := append(append([]Relation(nil), truth[:j]...), truth[j+1:]...)
		best = max(best, float64(agreements(said[0], tr))/2+exhaustive(said[1:], rest))
	}
	return best
}

// TestThousandsOfObjectsAreCompared: their number of pairs would take hours.
func TestThousandsOfObjectsAreCompared(t *testing.T) {
	const n = 20_000
	var said, truth []Relation
	for range n {
		truth = append(truth, Relate("hole", -1, 1), Relate("hole", 1, -1))
		said = append(said, Relate("hole", -1, -1)) // agrees with both
	}
	for range n {
		said = append(said, Relation{Object: "hole", Vertical: Above}) // needs the first ones
	}
	require.Equal(t, float64(n), Similarity(said, truth))
	require.Equal(t, n, exactMatches(said[:n+1], append(said[:n:n], truth...)))
}

func TestRepeatedTextsArePenalisedUnlessTheyAreRight(t *testing.T) {
	truth := []Relation{Relate("target", -1, 0), Relate("box", 0, 1)}
	reading := func(text string, relations ...Relation) Reading {
		return Reading{Claim: Claim{Section: SectionObservation, Text: text, Truth: truth}, Relations: relations, OK: true}
	}
	s := SokobanScorer()
	s.TopK = 1
	// With equal counts the first text counts as the most frequent one, and half of it being
	// correct is enough.
	require.Equal(t, []float64{0.5, 0}, s.Score([]Reading{reading("good", truth[0]), reading("stock")}))
	scores := s.Score([]Reading{reading("stock"), reading("stock"), reading("stock", truth...), reading("other")})
	require.Equal(t, []float64{-0.1, -0.1, 1, 0}, scores)
	// Predictions are counted separately.
	p := reading("stock")
	p.Claim.Section = SectionPrediction
	require.Equal(t, []float64{-0.1}, s.Score([]Reading{p}))
}

func TestUnreadableAnswersScoreZero(t *testing.T) {
	truth := []Relation{Relate("target", 0, 0)}
	r := Reading{Claim: Claim{Truth: truth}, Relations: truth}
	require.Equal(t, []float64{0}, FrozenLakeScorer().Score([]Reading{r}))
	r.OK = true
	require.Equal(t, []float64{1}, FrozenLakeScorer().Score([]Reading{r}))
}

func TestRelationsAreReadLeniently(t *testing.T) {
	got, ok := ExtractRelations(`Sure! [{"object_id": "hole", "vertical_relation": 3, "horizontal_relation": "left"}, {"object_id": "target"}]`)
	require.True(t, ok)
	require.Equal(t, []Relation{{Object: "hole", Horizontal: "left"}, {Object: "target", bare: true}}, got)
	require.Error(t, json.Unmarshal([]byte(`[1]`), new(Relation)))
	_, ok = ExtractRelations("none")
	require.False(t, ok)
}
