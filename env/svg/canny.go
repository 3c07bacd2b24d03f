package svg

import (
	"image"

	"vagen/internal/imagefile"
)

// Thresholds on the gradient magnitude |dx| + |dy|.
const (
	edgeLow  = 100
	edgeHigh = 200
)

// edgesIn returns which pixels of a picture are edges, row by row. It is Canny's detector
// (IEEE PAMI 8(6), 1986) on the picture's luma, with 3×3 Sobel derivatives, repeated
// borders, |dx| + |dy| as magnitude, directions in four sectors, the thresholds above, and
// hysteresis over eight neighbours. The result equals that of OpenCV's Canny on Pillow's
// greyscale pictures, bit for bit.
func edgesIn(img image.Image) []bool {
	gray, w, h := luma(img)
	if w == 0 || h == 0 {
		return nil
	}
	d := derive(gray, w, h)
	state := d.candidates()
	return follow(state, w, h)
}

// luma returns the grey values (19595 R + 38470 G + 7471 B + 2¹⁵) / 2¹⁶.
func luma(img image.Image) (gray []uint8, w, h int) {
	p := imagefile.NRGBA(img)
	w, h = p.Rect.Dx(), p.Rect.Dy()
	gray = make([]uint8, w*h)
	for i := range gray {
		rgb := p.Pix[4*i:][:3]
		gray[i] = uint8((19595*uint32(rgb[0]) + 38470*uint32(rgb[1]) + 7471*uint32(rgb[2]) + 1<<15) >> 16)
	}
	return gray, w, h
}

// slopes holds the derivatives of a picture and their magnitudes. The magnitudes have a
// border of zeros, one pixel wide.
type slopes struct {
	w, h      int
	dx, dy    []int32
	magnitude []int32
}

func derive(gray []uint8, w, h int) slopes {
	s := slopes{w: w, h: h, dx: make([]int32, w*h), dy: make([]int32, w*h), magnitude: make([]int32, (w+2)*(h+2))}
	for y := range h {
		above, here, below := gray[max(y-1, 0)*w:], gray[y*w:], gray[min(y+1, h-1)*w:]
		for x := range w {
			l, r := max(x-1, 0), min(x+1, w-1)
			dx := int32(above[r]) - int32(above[l]) + 2*(int32(here[r])-int32(here[l])) + int32(below[r]) - int32(below[l])
			dy := int32(below[l]) + 2*int32(below[x]) + int32(below[r]) - int32(above[l]) - 2*int32(above[x]) - int32(above[r])
			s.dx[y*w+x], s.dy[y*w+x] = dx, dy
			s.magnitude[(y+1)*(w+2)+x+1] = max(dx, -dx) + max(dy, -dy)
		}
	}
	return s
}

// States of a pixel.
const (
	flat uint8 = iota // no edge
	weak              // an edge if it is connected to one
	edge
)

// candidates keeps the pixels whose magnitude is a maximum across the edge's direction
// (non-maximum suppression).
func (s slopes) candidates() []uint8 {
	const tan22 = 13573 // tan 22.5° · 2¹⁵
	state := make([]uint8, s.w*s.h)
	line := s.w + 2
	for y := range s.h {
		for x := range s.w {
			at := (y+1)*line + x + 1
			m := s.magnitude[at]
			if m <= edgeLow {
				continue
			}
			dx, dy := s.dx[y*s.w+x], s.dy[y*s.w+x]
			ax, ay := int64(max(dx, -dx)), int64(max(dy, -dy))<<15
			low := ax * tan22
			var peak bool
			switch {
			case ay < low: // across x
				peak = m > s.magnitude[at-1] && m >= s.magnitude[at+1]
			case ay > low+ax<<16: // across y; tan 67.5° = tan 22.5° + 2
				peak = m > s.magnitude[at-line] && m >= s.magnitude[at+line]
			default:
				side := 1
				if dx^dy < 0 {
					side = -1
				}
				peak = m > s.magnitude[at-line-side] && m > s.magnitude[at+line+side]
			}
			switch {
			case peak && m > edgeHigh:
				state[y*s.w+x] = edge
			case peak:
				state[y*s.w+x] = weak
			}
		}
	}
	return state
}

// follow turns weak candidates that are connected to an edge into edges.
func follow(state []uint8, w, h int) []bool {
	out := make([]bool, len(state))
	var stack []int
	for i, s := range state {
		if s == edge {
			out[i] = true
			stack = append(stack, i)
		}
	}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		x, y := i%w, i/w
		for ny := max(y-1, 0); ny <= min(y+1, h-1); ny++ {
			for nx := max(x-1, 0); nx <= min(x+1, w-1); nx++ {
				if j := ny*w + nx; state[j] == weak && !out[j] {
					out[j] = true
					stack = append(stack, j)
				}
			}
		}
	}
	return out
}

func overlap(a, b []bool) float64 {
	both, any := 0, 0
	for i := range a {
		if a[i] && b[i] {
			both++
		}
		if a[i] || b[i] {
			any++
		}
	}
	if any == 0 {
		return 0
	}
	return float64(both) / float64(any)
}
