package blackjack

import (
	"image"
	"image/color"
	"image/draw"
	"strings"

	"vagen/env/internal/rgb"
)

// pictureSize is the side of a picture in pixels.
const pictureSize = 300

// Layout of a picture, in pixels.
const (
	cardWide, cardHigh = 72, 108
	margin, gap        = 18, 12
	dealerTop          = 26
	playerTop          = 166
	glyphScale         = 4 // pixels to a dot of a rank
	suitScale          = 5 // pixels to a dot of a suit
)

// The colours of a picture.
var (
	felt     = rgb.Of(0x186840)
	paper    = rgb.Of(0xfaf8f0)
	outline  = rgb.Of(0x28282c)
	black    = rgb.Of(0x18181c)
	red      = rgb.Of(0xc81e28)
	back     = rgb.Of(0x284096)
	backLine = rgb.Of(0x8296dc)
)

// picture draws the table: the dealer's cards above, all but the first face down
// until the game is over, and the player's below.
func (e *Env) picture() *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, pictureSize, pictureSize))
	fill(img, img.Rect, felt)
	for i, c := range e.dealer {
		at := place(i, len(e.dealer), dealerTop)
		switch {
		case i == 0:
			drawCard(img, at, e.shown)
		case e.over:
			drawCard(img, at, c)
		default:
			drawBack(img, at)
		}
	}
	for i, c := range e.player {
		drawCard(img, place(i, len(e.player), playerTop), c)
	}
	return img
}

// place returns the position of card i of n. Cards that do not fit side by side overlap,
// so that the upper left corner of each is visible.
func place(i, n, top int) image.Rectangle {
	step := cardWide + gap
	if n > 1 {
		step = min(step, (pictureSize-2*margin-cardWide)/(n-1))
	}
	x := margin + i*step
	return image.Rect(x, top, x+cardWide, top+cardHigh)
}

func fill(img *image.RGBA, r image.Rectangle, c color.RGBA) {
	draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
}

func drawCard(img *image.RGBA, r image.Rectangle, c Card) {
	fill(img, r, outline)
	fill(img, r.Inset(2), paper)
	ink := black
	if c.Suit == Diamonds || c.Suit == Hearts {
		ink = red
	}
	stamp(img, r.Min.X+8, r.Min.Y+8, glyphScale, ranks[c.Face], ink)
	stamp(img, r.Min.X+(cardWide-7*suitScale)/2, r.Max.Y-7*suitScale-16, suitScale, suits[c.Suit%4], ink)
}

func drawBack(img *image.RGBA, r image.Rectangle) {
	fill(img, r, outline)
	fill(img, r.Inset(2), paper)
	fill(img, r.Inset(6), back)
	for y := r.Min.Y + 10; y < r.Max.Y-10; y++ {
		for x := r.Min.X + 10; x < r.Max.X-10; x++ {
			if (x+y)%8 < 2 || (x-y+400)%8 < 2 {
				img.SetRGBA(x, y, backLine)
			}
		}
	}
}

// stamp draws a bitmap, where '#' is drawn.
func stamp(img *image.RGBA, x, y, scale int, bitmap string, ink color.RGBA) {
	for row := range strings.SplitSeq(strings.TrimPrefix(bitmap, "\n"), "\n") {
		for j := range row {
			if row[j] == '#' {
				fill(img, image.Rect(x+j*scale, y, x+(j+1)*scale, y+scale), ink)
			}
		}
		y += scale
	}
}
