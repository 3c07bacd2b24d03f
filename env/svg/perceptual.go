package svg

import (
	"image"
	"math"
)

// levels is how many times pictures are halved for Perceptual.
const levels = 4

// Perceptual returns how alike two pictures on white are, in [0, 1]: 1 for equal
// pictures, 0 when nothing was drawn where the other has something. It needs no
// model, and it rises smoothly while a drawing gets nearer, so that there is
// something to learn from.
//
// Let t and a be the ink of the two, 1 − value for each colour of each pixel,
// averaged over squares of 2, 4, 8 and 16 pixels, and g and h the gradients of the
// luma of these averages. Each of the four sizes gives
//
//	ink  = Σ min(t, a) / Σ max(t, a)
//	line = Σ min(|g|, |h|)·max(0, cos∠(g, h)) / Σ max(|g|, |h|)
//
// and the score is the mean of all eight. Both terms are generalised Jaccard
// indices: of areas and colours the one, of outlines and their directions the
// other. A term is 1 where both pictures are empty. Fine sizes reward exactness,
// coarse ones a drawing that is only near. Pictures of different sizes score 0.
func Perceptual(target, attempt image.Image) float64 {
	if target.Bounds().Size() != attempt.Bounds().Size() {
		return 0
	}
	a, b := inkOf(target), inkOf(attempt)
	sum, terms := 0.0, 0
	for range levels {
		a, b = a.half(), b.half()
		if a.w == 0 || a.h == 0 {
			break
		}
		sum += a.areas(b) + a.lines(b)
		terms += 2
	}
	if terms == 0 {
		return 0
	}
	return sum / float64(terms)
}

// ink is a picture as the complement of its colours.
type ink struct {
	w, h int
	v    []float32 // three to a pixel, in [0, 1]
}

func inkOf(img image.Image) ink {
	b := img.Bounds()
	k := ink{w: b.Dx(), h: b.Dy(), v: make([]float32, 0, 3*b.Dx()*b.Dy())}
	rgba, fast := img.(*image.RGBA)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if fast {
				p := rgba.Pix[rgba.PixOffset(x, y):]
				k.v = append(k.v, float32(255-p[0])/255, float32(255-p[1])/255, float32(255-p[2])/255)
				continue
			}
			red, green, blue, _ := img.At(x, y).RGBA()
			k.v = append(k.v, 1-float32(red)/0xffff, 1-float32(green)/0xffff, 1-float32(blue)/0xffff)
		}
	}
	return k
}

// half averages squares of two by two pixels. A last odd row or column is left
// out.
func (k ink) half() ink {
	out := ink{w: k.w / 2, h: k.h / 2}
	out.v = make([]float32, 3*out.w*out.h)
	for y := range out.h {
		for x := range out.w {
			from := 3 * (2*y*k.w + 2*x)
			for c := range 3 {
				below := from + 3*k.w
				out.v[3*(y*out.w+x)+c] = (k.v[from+c] + k.v[from+3+c] + k.v[below+c] + k.v[below+3+c]) / 4
			}
		}
	}
	return out
}

func (k ink) areas(o ink) float64 {
	var both, any float64
	for i, v := range k.v {
		both += float64(min(v, o.v[i]))
		any += float64(max(v, o.v[i]))
	}
	return ratio(both, any)
}

func (k ink) lines(o ink) float64 {
	var both, any float64
	for y := range k.h {
		for x := range k.w {
			gx, gy := k.gradient(x, y)
			hx, hy := o.gradient(x, y)
			g, h := math.Hypot(gx, gy), math.Hypot(hx, hy)
			any += max(g, h)
			if least := min(g, h); least > 0 {
				both += least * max(0, (gx*hx+gy*hy)/(g*h))
			}
		}
	}
	return ratio(both, any)
}

// gradient is half the difference of the neighbours' luma; at borders the pixel
// stands for the neighbour that is missing.
func (k ink) gradient(x, y int) (gx, gy float64) {
	at := func(x, y int) float64 {
		i := 3 * (y*k.w + x)
		return 0.299*float64(k.v[i]) + 0.587*float64(k.v[i+1]) + 0.114*float64(k.v[i+2])
	}
	return (at(min(x+1, k.w-1), y) - at(max(x-1, 0), y)) / 2, (at(x, min(y+1, k.h-1)) - at(x, max(y-1, 0))) / 2
}

func ratio(both, any float64) float64 {
	if any == 0 {
		return 1
	}
	return min(both/any, 1)
}
