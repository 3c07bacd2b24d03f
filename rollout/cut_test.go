package rollout_test

import (
	"fmt"
	"image"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/rollout"
)

// weigh counts one token for a letter and ten for an image.
func weigh(o env.Observation) (int, error) {
	return len([]rune(strings.ReplaceAll(o.Text, env.ImageMark, ""))) + 10*len(o.Images), nil
}

func shownText(text string, images int) env.Observation {
	o := env.Observation{Text: text}
	for i := range images {
		o.Images = append(o.Images, picture(int64(i), 0))
	}
	return o
}

// TestObservationsAreCutTextFirst: text is cut from its end, letter by letter, then
// whole images; each mark stays with its image.
func TestObservationsAreCutTextFirst(t *testing.T) {
	for _, c := range []struct {
		text   string
		images int
		limit  int
		want   string
		left   int
	}{
		{"abcdef", 0, 6, "abcdef", 0},
		{"abcdef", 0, 5, "abcde", 0},
		{"äbcdéf", 0, 1, "ä", 0},
		{"ab<image>cd", 1, 14, "ab<image>cd", 1},
		{"ab<image>cd", 1, 13, "ab<image>c", 1},
		{"ab<image>cd", 1, 12, "ab<image>", 1},
		{"ab<image>cd", 1, 11, "a<image>", 1},
		{"ab<image>cd", 1, 10, "<image>", 1},
		{"a<image>b<image>c", 2, 22, "a<image>b<image>", 2},
		{"a<image>b<image>c", 2, 20, "<image><image>", 2},
		{"a<image>b<image>c", 2, 19, "<image>", 1},
	} {
		o := shownText(c.text, c.images)
		got, cut, err := rollout.CutTo(o, c.limit, weigh)
		require.NoError(t, err)
		require.Equal(t, c.want, got.Text, "%+v", c)
		require.Len(t, got.Images, c.left)
		require.Equal(t, c.want != c.text, cut)
		require.Equal(t, c.left, strings.Count(got.Text, env.ImageMark), "marks and images stay one to one")
		if c.left > 0 {
			require.Equal(t, o.Images[:c.left], got.Images)
		}
	}
	for _, o := range []env.Observation{shownText("<image>ab", 1), shownText("abc", 0)} {
		_, _, err := rollout.CutTo(o, 0, weigh)
		require.ErrorIs(t, err, rollout.ErrObservation, "nothing would be left")
	}
	_, _, err := rollout.CutTo(shownText("ab", 0), 1, func(env.Observation) (int, error) { return 0, errBroken })
	require.ErrorIs(t, err, errBroken)
}

// TestCutsAreRecorded: the trajectory holds the observation after the cut, and each
// cut is counted. First observations are limited only as part of the opening.
func TestCutsAreRecorded(t *testing.T) {
	ts, _ := played(t, nil, func(p *rollout.Player) { p.Budget.Observation = 12 })
	cuts := 0
	for _, tr := range ts {
		for k, turn := range tr.Turns {
			require.Equal(t, k > 0, turn.Cut)
			if turn.Cut {
				cuts++
			} else {
				require.Contains(t, turn.Observation.Text, "turn 0")
			}
		}
	}
	require.Positive(t, cuts)
	require.Equal(t, cuts, rollout.Count(ts).Cut)
	ts, _ = played(t, nil, func(p *rollout.Player) { p.Budget.Observation = 1 })
	for i, tr := range ts {
		if i%2 == 0 && len(tr.Turns) > 0 && !tr.End.Usable() {
			require.Equal(t, rollout.EndBudget, tr.End, "a picture and the mark of who speaks are two tokens")
			require.ErrorIs(t, tr.Err, rollout.ErrObservation)
		}
	}
}

// TestChoicesOfEpisodesAreChecked; which ones are chosen is compared by TestGoldenRunControl.
func TestChoicesOfEpisodesAreChecked(t *testing.T) {
	eps := make([]rollout.Candidate, 4)
	none, err := rollout.ChooseBalanced.Choose(eps, 0, 0.5)
	require.NoError(t, err)
	require.Empty(t, none)
	for _, bad := range []struct {
		c     rollout.Choice
		n     int
		ratio float64
	}{{"middle", 1, 0.5}, {rollout.ChooseBest, -1, 0.5}, {rollout.ChooseBalanced, 1, math.NaN()},
		{rollout.ChooseBalanced, 1, 1.5}} {
		_, err := bad.c.Choose(eps, bad.n, bad.ratio)
		require.ErrorContains(t, err, "rollout: choose")
	}
}

var _ image.Image = picture(0, 0)

func TestKeepLastKeepsItsImageMarks(t *testing.T) {
	o := shownText("ab<image>cd<image>é", 2)
	for _, c := range []struct {
		runes, images int
		want          string
	}{
		{5, 2, "ab<image>cd<image>é"}, {4, 2, "b<image>cd<image>é"}, {2, 2, "<image>d<image>é"}, {0, 2, "<image><image>"},
		{3, 1, "cd<image>é"}, {0, 1, "<image>"}, {1, 0, "é"}, {2, 0, "dé"},
	} {
		got := rollout.KeepLast(o, c.runes, c.images)
		require.Equal(t, c.want, got.Text)
		require.Equal(t, o.Images[2-c.images:], got.Images)
	}
}

// TestOpeningsAreCutWhereThatIsAllowed: an opening that is too long makes the episode
// unusable, or is cut at its beginning, or at its end.
func TestOpeningsAreCutWhereThatIsAllowed(t *testing.T) {
	whole, _ := played(t, nil, nil)
	first := math.MaxInt
	for _, tr := range whole {
		for p := range tr.Rows[0].Pieces {
			first = min(first, p.End)
			break
		}
	}
	for _, cut := range []rollout.Cut{rollout.CutNothing, rollout.CutLeft, rollout.CutRight} {
		ts, _ := played(t, nil, func(p *rollout.Player) { p.Budget.Prompt, p.Budget.Cut = first-1, cut })
		for i, tr := range ts {
			if cut == rollout.CutNothing {
				require.Equal(t, rollout.EndBudget, tr.End)
				testkit.Error(t, tr.Err, rollout.ErrOpening, fmt.Sprintf("Budget.Prompt allows %d", first-1))
				continue
			}
			require.True(t, tr.End.Usable(), "%v", tr.Err)
			require.True(t, tr.Turns[0].Cut)
			plain := func(o env.Observation) string { return strings.ReplaceAll(o.Text, env.ImageMark, "") }
			was, is := plain(whole[i].Turns[0].Observation), plain(tr.Turns[0].Observation)
			require.Less(t, len(is), len(was))
			if cut == rollout.CutLeft {
				require.True(t, strings.HasSuffix(was, is), "%q of %q", is, was)
			} else {
				require.True(t, strings.HasPrefix(was, is), "%q of %q", is, was)
			}
		}
	}
	ts, _ := played(t, nil, func(p *rollout.Player) { p.Budget.Prompt, p.Budget.Cut = 1, rollout.CutLeft })
	require.ErrorIs(t, ts[0].Err, rollout.ErrOpening, "nothing would be left")
}

// TestEpisodesHaveTheirOwnLimits: on observations, responses and images.
func TestEpisodesHaveTheirOwnLimits(t *testing.T) {
	play := func(set func(*rollout.Episode), with func(*rollout.Player)) []*rollout.Trajectory {
		p := player(t, &world{}, &parrot{})
		p.MaxTurns = 6
		if with != nil {
			with(p)
		}
		es := episodes(9)
		for i := range es {
			set(&es[i])
		}
		ts := finished(t, p, es)
		return ts
	}
	for _, same := range []struct {
		episode func(*rollout.Episode)
		player  func(*rollout.Player)
	}{
		{func(e *rollout.Episode) { e.MaxObservation = 12 }, func(p *rollout.Player) { p.Budget.Observation = 12 }},
		{func(e *rollout.Episode) { e.MaxTokens = 3 }, func(p *rollout.Player) { p.Sampling.MaxTokens = 3 }},
	} {
		own, all := play(same.episode, nil), play(func(*rollout.Episode) {}, same.player)
		for i := range own {
			own[i].MaxObservation, own[i].MaxTokens = 0, 0
		}
		require.Equal(t, all, own)
		require.NotEqual(t, play(func(*rollout.Episode) {}, nil), own)
	}
}

func TestImagesOfAConversationAreLimited(t *testing.T) {
	whole, _ := played(t, nil, nil)
	most := 0
	for _, tr := range whole {
		most = max(most, len(tr.Rows[0].Images))
	}
	require.Greater(t, most, 2)
	ts, _ := played(t, nil, func(p *rollout.Player) { p.Budget.Images = 2 })
	cut := 0
	for _, tr := range ts {
		require.LessOrEqual(t, len(tr.Rows[0].Images), 2)
		if tr.End == rollout.EndNoRoom {
			cut++
		}
	}
	require.Positive(t, cut)
}
