package svg

import (
	"image"
	"math"

	"vagen/internal/imagefile"
)

// levels is the number of times that perceptual halves the pictures.
const levels = 4

func similarity(a, b []ink) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i].areas(b[i]) + a[i].lines(b[i])
	}
	return sum / float64(max(1, 2*len(a)))
}

// ink is a picture with complemented colours: white is 0.
type ink struct {
	w, h int
	v    []float32 // three per pixel, in [0, 1]
	luma []float32
}

// pyramidOf returns the ink of a picture at each resolution that has pixels.
func pyramidOf(img image.Image) []ink {
	var list []ink
	k := inkOf(img)
	for range levels {
		if k = k.half(); k.w == 0 || k.h == 0 {
			break
		}
		list = append(list, k)
	}
	return list
}

func inkOf(img image.Image) ink {
	p := imagefile.NRGBA(img)
	k := ink{w: p.Rect.Dx(), h: p.Rect.Dy(), v: make([]float32, 0, 3*len(p.Pix)/4)}
	for i := 0; i < len(p.Pix); i += 4 {
		rgb := p.Pix[i : i+3]
		k.v = append(k.v, float32(255-rgb[0])/255, float32(255-rgb[1])/255, float32(255-rgb[2])/255)
	}
	return k
}

// half averages squares of two by two pixels. An odd last row or column is ignored.
func (k ink) half() ink {
	out := ink{w: k.w / 2, h: k.h / 2}
	out.v, out.luma = make([]float32, 3*out.w*out.h), make([]float32, out.w*out.h)
	for y := range out.h {
		upper, lower := k.v[3*2*y*k.w:], k.v[3*(2*y+1)*k.w:]
		for x := range out.w {
			to := out.v[3*(y*out.w+x):][:3]
			for c := range 3 {
				from := 6*x + c
				to[c] = (upper[from] + upper[from+3] + lower[from] + lower[from+3]) / 4
			}
			out.luma[y*out.w+x] = 0.299*to[0] + 0.587*to[1] + 0.114*to[2]
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
			if gx == hx && gy == hy { // exact, so that equal pictures score 1
				g := math.Sqrt(gx*gx + gy*gy)
				both, any = both+g, any+g
				continue
			}
			g, h := math.Sqrt(gx*gx+gy*gy), math.Sqrt(hx*hx+hy*hy)
			any += max(g, h)
			if min(g, h) > 0 {
				both += max(0, gx*hx+gy*hy) / max(g, h)
			}
		}
	}
	return ratio(both, any)
}

// gradient is half the difference of the neighbours' luma. At borders the pixel itself
// replaces the missing neighbour.
func (k ink) gradient(x, y int) (gx, gy float64) {
	row := k.luma[y*k.w : (y+1)*k.w]
	above, below := k.luma[max(y-1, 0)*k.w:], k.luma[min(y+1, k.h-1)*k.w:]
	return float64(row[min(x+1, k.w-1)]-row[max(x-1, 0)]) / 2, float64(below[x]-above[x]) / 2
}

func ratio(both, any float64) float64 {
	if any == 0 {
		return 1
	}
	return min(both/any, 1)
}
