package imagefile

import "image"

// toRGB converts three planes, which are Y, Cb and Cr with ycc, otherwise red, green and blue. With
// a fourth plane they are the ink that YCCK and CMYK store, and the fourth is black.
func toRGB(out *image.RGBA, planes []*plane, ycc bool) {
	width := out.Rect.Dx()
	for y := range out.Rect.Dy() {
		dst := out.Pix[y*out.Stride:][:4*width]
		a, b, c := planes[0].row(y)[:width], planes[1].row(y)[:width], planes[2].row(y)[:width]
		if ycc {
			fromYCC(dst, a, b, c)
		} else {
			interleave(dst, a, b, c)
		}
		if len(planes) == 4 {
			fromInk(dst, planes[3].row(y)[:width], ycc)
		}
	}
}

// fromYCC converts a row to opaque RGBA with the integers of libjpeg, jdcolor.c: 1.402, 0.34414,
// 0.71414 and 1.772 times 65,536.
func fromYCC(dst, luma, cb, cr []byte) {
	for x, l := range luma {
		y, u, v := int32(l), int32(cb[x])-128, int32(cr[x])-128
		r := y + (91881*v+1<<15)>>16
		g := y + (-22554*u-46802*v+1<<15)>>16
		b := y + (116130*u+1<<15)>>16
		if uint32(r) > 255 {
			r = ^(r >> 31)
		}
		if uint32(g) > 255 {
			g = ^(g >> 31)
		}
		if uint32(b) > 255 {
			b = ^(b >> 31)
		}
		p := dst[4*x:][:4:4]
		p[0], p[1], p[2], p[3] = byte(r), byte(g), byte(b), 255
	}
}

func interleave(dst, r, g, b []byte) {
	for x := range r {
		p := dst[4*x:][:4:4]
		p[0], p[1], p[2], p[3] = r[x], g[x], b[x], 255
	}
}

// fromInk replaces a row of ink by its colours with Pillow's integers, Convert.c. The three
// inks of CMYK are inverted; those converted from YCC are not.
func fromInk(dst, black []byte, ycc bool) {
	for x, k := range black {
		p := dst[4*x:][:3:3]
		for i, v := range p {
			ink := uint32(v)
			if !ycc {
				ink = 255 - ink
			}
			t := ink*uint32(k) + 128
			p[i] = k - byte((t>>8+t)>>8)
		}
	}
}

// plane is a plane of samples, each of which stands for h by v pixels.
type plane struct {
	pix                   []byte
	stride, width, height int // in samples
	h, v                  int
	line                  []byte // an interpolated row
}

func (d *decoder) plane(c *component) *plane {
	h, v := d.h/c.h, d.v/c.v
	width, height := ceil(d.width, h), ceil(d.height, v)
	return &plane{pix: c.pix, stride: 8 * c.wide, width: width, height: height, h: h, v: v, line: make([]byte, width*h)}
}

func (p *plane) samples(y int) []byte { return p.pix[y*p.stride:][:p.width] }

// row returns a row of at least as many pixels as the image has. It is valid until the next
// call. Samples at half the width or height are interpolated as in libjpeg, jdsample.c ("fancy
// upsampling"): a pixel is 3/4 of the sample that contains it and 1/4 of the next one, in each
// direction that is halved. Other ratios, and rows of 1 or 2 samples, repeat the sample.
func (p *plane) row(y int) []byte {
	near := p.samples(y / p.v)
	far := near // of the nearest other row
	if p.v == 2 {
		far = p.samples(min(max(y/2-1+y%2*2, 0), p.height-1))
	}
	switch {
	case p.h == 1 && p.v == 1:
		return near
	case p.h == 1 && p.v == 2:
		between(p.line, near, far, 1+y%2)
	case p.h == 2 && p.width > 2 && p.v == 1:
		widen(p.line, near)
	case p.h == 2 && p.width > 2 && p.v == 2:
		widenBetween(p.line, near, far)
	default:
		for x, v := range near {
			for k := range p.h {
				p.line[x*p.h+k] = v
			}
		}
	}
	return p.line
}

// between interpolates between two rows. round is 1 or 2.
func between(dst, near, far []byte, round int) {
	for x, v := range near {
		dst[x] = byte((3*int(v) + int(far[x]) + round) >> 2)
	}
}

// widen doubles the width of a row of 2 or more samples.
func widen(dst, in []byte) {
	last := len(in) - 1
	prev, this := int(in[0]), int(in[0])
	for x, v := range in[1:] {
		next := int(v)
		d := dst[2*x:][:2:2]
		d[0], d[1] = byte((3*this+prev+1)>>2), byte((3*this+next+2)>>2)
		prev, this = this, next
	}
	dst[0] = in[0]
	dst[2*last], dst[2*last+1] = byte((3*this+prev+1)>>2), in[last]
}

// widenBetween interpolates between two rows of 2 or more samples and doubles the width.
func widenBetween(dst, near, far []byte) {
	this := 3*int(near[0]) + int(far[0])
	prev := this // which makes the first pixel (4·this+8)/16
	far = far[1:]
	for x, v := range near[1:] {
		next := 3*int(v) + int(far[x])
		d := dst[2*x:][:2:2]
		d[0], d[1] = byte((3*this+prev+8)>>4), byte((3*this+next+7)>>4)
		prev, this = this, next
	}
	last := 2 * (len(near) - 1)
	dst[last], dst[last+1] = byte((3*this+prev+8)>>4), byte((4*this+7)>>4)
}
