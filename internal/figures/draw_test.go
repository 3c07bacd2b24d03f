package figures

import (
	"fmt"
	"html"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/mask"
	"vagen/reward"
)

// Sizes in pixels, and colours.
const (
	labelWidth = 200
	cell       = 52
	lineHeight = 30

	ink, faint, grey = "#1f2933", "#7b8794", "#e4e7eb"
)

// turnColours are the colours of turns.
var turnColours = []string{"#2f6f9f", "#c8692c"}

// picture is an SVG picture under construction.
type picture struct {
	text          strings.Builder
	width, height float64
}

func newPicture(tokens int, height float64) *picture {
	return &picture{width: labelWidth + float64(tokens)*cell + 16, height: height}
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *picture) rect(x, y, w, h float64, fill string) {
	p.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, w, h, fill)
}

func (p *picture) label(x, y float64, anchor, fill, text string) {
	p.add(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, fill, html.EscapeString(text))
}

// String is the finished picture.
func (p *picture) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="Helvetica, Arial, sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, p.width, p.height, p.width, p.height, p.text.String())
}

func at(token int) float64     { return labelWidth + float64(token)*cell }
func centre(token int) float64 { return at(token) + cell/2 }

// colour is that of a token's turn, grey for context.
func colour(turn int32) string {
	if turn < 0 {
		return grey
	}
	return turnColours[turn]
}

// words draws the tokens as a line at y.
func (p *picture) words(e *episode, y float64) {
	for i, turn := range e.row.TurnIndex(nil) {
		text := "#ffffff"
		if turn < 0 {
			text = ink
		}
		p.rect(at(i)+1, y, cell-2, lineHeight-6, colour(turn))
		p.label(centre(i), y+16, "middle", text, e.words[i])
	}
	p.label(labelWidth-10, y+16, "end", ink, "token")
}

// drawMasks draws who wrote which token and which masks it is in.
func drawMasks(e *episode) string {
	o := mask.Options{}
	atEnd := o
	atEnd.ValueAtTurnEnd = true
	lines := []struct {
		name string
		mask []bool
	}{
		{"response mask", e.row.Response(nil)},
		{"loss mask", e.row.Loss(nil, o)},
		{"advantage mask", e.row.Advantage(nil, o)},
		{"turn ends", e.row.TurnEnd(nil)},
		{"value mask", e.row.Value(nil, o)},
		{"… use_reward_mask: true", e.row.Value(nil, atEnd)},
	}
	p := newPicture(e.row.Len(), 60+float64(len(lines)+1)*lineHeight)
	kinds, start := e.row.Kinds(nil), 0
	for i := range kinds { // one heading for each run of tokens of one kind
		if i+1 < len(kinds) && kinds[i+1] == kinds[i] {
			continue
		}
		p.label((at(start)+at(i+1))/2, 22, "middle", faint, kinds[i].String())
		start = i + 1
	}
	p.words(e, 34)
	turns := e.row.TurnIndex(nil)
	for k, line := range lines {
		y := 70 + float64(k)*lineHeight
		p.label(labelWidth-10, y+16, "end", ink, line.name)
		for i, on := range line.mask {
			fill := "#f5f7fa"
			if on {
				fill = colour(turns[i])
			}
			p.rect(at(i)+1, y, cell-2, lineHeight-6, fill)
		}
	}
	return p.String()
}

// drawRewards draws the token that gets each reward with the three placements.
func drawRewards(t *testing.T, e *episode) string {
	lines := []struct {
		name string
		how  reward.Placement
	}{
		{"credit_site: turn_end", reward.PerTurn},
		{"credit_site: section_end", reward.PerSpan},
		{"use_multi_turn_reward: false", reward.AtLast},
	}
	p := newPicture(e.row.Len(), 46+float64(len(lines))*lineHeight)
	p.words(e, 10)
	turns := e.row.TurnIndex(nil)
	for k, line := range lines {
		y := 44 + float64(k)*lineHeight
		p.label(labelWidth-10, y+16, "end", ink, line.name)
		placed, err := reward.Place(nil, &e.row, line.how, e.turns, 0)
		require.NoError(t, err)
		for i, r := range placed {
			fill, text := "#f5f7fa", ""
			if r != 0 {
				fill, text = colour(turns[i]), fmt.Sprintf("%.1f", r)
			}
			p.rect(at(i)+1, y, cell-2, lineHeight-6, fill)
			p.label(centre(i), y+16, "middle", "#ffffff", text)
		}
	}
	return p.String()
}

// drawCredit draws the advantages of four estimators, before whitening.
func drawCredit(t *testing.T, e *episode) string {
	rewards, err := reward.Place(nil, &e.row, reward.PerTurn, e.turns, 0)
	require.NoError(t, err)
	var b advantage.Batch
	require.NoError(t, b.Append(&e.row, mask.Options{}, advantage.Row{Rewards: rewards, Values: e.values}))
	panels := []struct {
		name string
		est  advantage.Estimator
	}{
		{"gae", advantage.GAE{Gamma: 1, Lambda: 0.9}},
		{"masked_gae", advantage.Masked{Gamma: 1, Lambda: 0.9}},
		{"bi_level_gae", advantage.BiLevel{Gamma: 1, Lambda: 0.9, TurnGamma: 0.5}},
		{"turn_wise_gae", advantage.TurnWise{TurnGamma: 0.5, Lambda: 0.9}},
	}
	const panel, zero, scale = 112.0, 82.0, 20.0
	p := newPicture(e.row.Len(), 50+panel*float64(len(panels)))
	p.words(e, 10)
	turns, ends := e.row.TurnIndex(nil), e.row.TurnEnd(nil)
	for k, what := range panels {
		var out advantage.Result
		require.NoError(t, what.est.Estimate(&out, &b))
		y := 40 + panel*float64(k) + zero
		p.label(labelWidth-10, y, "end", ink, what.name)
		p.add(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/>`, at(0), at(e.row.Len()), y, y, faint)
		turnLevel := what.name == "bi_level_gae" || what.name == "turn_wise_gae"
		for i, a := range out.Advantages {
			if turns[i] < 0 && what.name != "gae" {
				continue // not a step of the recursion
			}
			h, below := math.Abs(float64(a))*scale, 14.0
			top := y - h
			if a < 0 {
				top, below = y, -6
			}
			p.rect(at(i)+10, top, cell-20, max(h, 1), colour(turns[i]))
			p.label(centre(i), y+below, "middle", ink, fmt.Sprintf("%.2f", a))
			if turnLevel && ends[i] {
				p.label(centre(i), top-6, "middle", ink, fmt.Sprintf("H%d", turns[i]+1))
			}
		}
	}
	return p.String()
}
