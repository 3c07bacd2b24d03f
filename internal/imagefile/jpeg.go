package imagefile

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"slices"
)

// decoder reads a JPEG, ITU-T T.81: baseline, extended and progressive, with Huffman codes and
// samples of 8 bits. The standard library's inverse DCT rounds otherwise than that of libjpeg,
// which makes pixels differ by up to 3 levels, and it does not interpolate chroma.
type decoder struct {
	raw           []byte
	width, height int
	components    []component
	h, v          int // the largest sampling factors
	progressive   bool
	quant         [4]*[64]int32
	dc, ac        [4]*huffman
	restart       int // units between restart markers, 0 for none
	scans         int

	jfif  bool
	adobe int // the transform that Adobe's segment names, −1 without one
	exif  []byte
}

// maxScans bounds the time for a small file whose scans are empty. Encoders write about 10.
const maxScans = 256

// The markers of segments.
const (
	sof0, sof1, sof2  = 0xc0, 0xc1, 0xc2
	dht, dqt, dri     = 0xc4, 0xdb, 0xdd
	sos, eoi          = 0xda, 0xd9
	app0, app1, app14 = 0xe0, 0xe1, 0xee
)

// segments reads the segments to the end, or, with headerOnly, to the first scan.
func (d *decoder) segments(headerOnly bool) error {
	for at := 2; ; {
		for at+1 < len(d.raw) && (d.raw[at] != 0xff || d.raw[at+1] == 0 || d.raw[at+1] == 0xff ||
			d.raw[at+1] == 1 || 0xd0 <= d.raw[at+1] && d.raw[at+1] <= 0xd8) {
			at++ // no marker, or one without a segment
		}
		if at+1 >= len(d.raw) || d.raw[at+1] == eoi {
			return nil
		}
		marker := d.raw[at+1]
		if at+4 > len(d.raw) {
			return errShort
		}
		end := at + 2 + int(d.raw[at+2])<<8 + int(d.raw[at+3])
		if end < at+4 || end > len(d.raw) {
			return fmt.Errorf("segment %#x: bad length", marker)
		}
		body := d.raw[at+4 : end]
		if at = end; marker == sos {
			if headerOnly {
				return nil
			}
			if d.scans++; d.scans > maxScans {
				return fmt.Errorf("more than %d scans", maxScans)
			}
			var err error
			if at, err = d.readScan(body, at); err != nil {
				return err
			}
			continue
		}
		if err := d.segment(marker, body); err != nil {
			return fmt.Errorf("segment %#x: %w", marker, err)
		}
	}
}

// segment reads a segment that is not a scan.
func (d *decoder) segment(marker byte, body []byte) error {
	switch {
	case marker == sof0 || marker == sof1 || marker == sof2:
		d.progressive = marker == sof2
		return d.frame(body)
	case marker == dht:
		return d.huffmanTables(body)
	case marker == dqt:
		return d.quantTables(body)
	case marker == dri && len(body) == 2:
		d.restart = int(body[0])<<8 + int(body[1])
	case marker == app0 && bytes.HasPrefix(body, []byte("JFIF\x00")):
		d.jfif = true
	case marker == app1 && d.exif == nil && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
		d.exif = body[6:]
	case marker == app14 && len(body) >= 12 && bytes.HasPrefix(body, []byte("Adobe")):
		d.adobe = int(body[11])
	case marker <= 0xcf && marker != 0xc8 && marker != 0xcc && marker != dht:
		return errors.New("only Huffman codes, baseline or progressive, are supported")
	}
	return nil
}

// frame reads the size and the components.
func (d *decoder) frame(body []byte) error {
	if d.components != nil {
		return errors.New("a second frame")
	}
	if len(body) < 6 || len(body) != 6+3*int(body[5]) || !slices.Contains([]byte{1, 3, 4}, body[5]) {
		return errors.New("the number of components must be 1, 3 or 4")
	}
	if body[0] != 8 {
		return fmt.Errorf("%d bits for each sample, must be 8", body[0])
	}
	d.height, d.width = int(body[1])<<8+int(body[2]), int(body[3])<<8+int(body[4])
	if d.height == 0 || d.width == 0 {
		return fmt.Errorf("the size is %d by %d", d.width, d.height)
	}
	d.components = make([]component, body[5])
	for i := range d.components {
		b := body[6+3*i:]
		h, v := int(b[1]>>4), int(b[1]&15)
		if h < 1 || h > 4 || v < 1 || v > 4 || b[2] > 3 || d.component(b[0]) != nil {
			return fmt.Errorf("component %d: bad number, sampling factors or table", i)
		}
		d.components[i] = component{id: b[0], h: h, v: v, table: int(b[2])}
		d.h, d.v = max(d.h, h), max(d.v, v)
	}
	for i, c := range d.components {
		if d.h%c.h != 0 || d.v%c.v != 0 {
			return fmt.Errorf(
				"component %d has sampling factors %d, %d, which do not divide %d, %d", i, c.h, c.v, d.h, d.v,
			)
		}
	}
	return nil
}

// component returns the component with a number; nil if there is none.
func (d *decoder) component(id byte) *component {
	for i := range d.components {
		if c := &d.components[i]; c.h > 0 && c.id == id {
			return c
		}
	}
	return nil
}

func (d *decoder) quantTables(body []byte) error {
	for len(body) > 0 {
		wide, n := int(body[0]>>4), int(body[0]&15)
		size := 1 + 64<<wide
		if wide > 1 || n > 3 || len(body) < size {
			return errors.New("bad table of quantisation")
		}
		q := new([64]int32)
		for i, at := range natural[:64] {
			if q[at] = int32(body[1+i<<wide]); wide == 1 {
				q[at] = q[at]<<8 + int32(body[2+2*i])
			}
		}
		d.quant[n], body = q, body[size:]
	}
	return nil
}

func (d *decoder) huffmanTables(body []byte) error {
	for len(body) > 0 {
		if len(body) < 17 || body[0]>>4 > 1 || body[0]&15 > 3 {
			return errTable
		}
		counts, n := body[1:17], 0
		for _, c := range counts {
			n += int(c)
		}
		if n > 256 || len(body) < 17+n {
			return errTable
		}
		h, err := newHuffman(counts, body[17:17+n])
		if err != nil {
			return err
		}
		if body[0]>>4 == 0 {
			d.dc[body[0]&15] = h
		} else {
			d.ac[body[0]&15] = h
		}
		body = body[17+n:]
	}
	return nil
}

// alloc allocates the samples, or the coefficients of a progressive image.
func (d *decoder) alloc() {
	across, down := ceil(d.width, 8*d.h), ceil(d.height, 8*d.v)
	for i := range d.components {
		c := &d.components[i]
		c.wide, c.high = across*c.h, down*c.v
		c.pix = make([]byte, 64*c.wide*c.high)
		if d.progressive {
			c.coef = make([][64]int16, c.wide*c.high)
		}
	}
}

func ceil(n, by int) int { return (n + by - 1) / by }

func jpegSize(raw []byte) (width, height int, err error) {
	d := decoder{raw: raw}
	if err := d.segments(true); err != nil {
		return 0, 0, err
	}
	if d.components == nil {
		return 0, 0, errors.New("no frame")
	}
	return d.width, d.height, nil
}

func decodeJPEG(raw []byte) (image.Image, error) {
	d := &decoder{raw: raw, adobe: -1}
	if err := d.segments(false); err != nil {
		return nil, err
	}
	if d.scans == 0 {
		return nil, errors.New("no scan")
	}
	for i := range d.components {
		c := &d.components[i]
		if c.quant == nil {
			return nil, fmt.Errorf("component %d is in no scan", i)
		}
		for k := range c.coef {
			inverseDCT(c.pix[8*(k/c.wide*8*c.wide+k%c.wide):], 8*c.wide, &c.coef[k], c.quant)
		}
		c.coef = nil
	}
	return turned(d.image(), orientation(d.exif)), nil
}

// image converts the samples. The rules for the colours are those of libjpeg, jdapimin.c.
func (d *decoder) image() image.Image {
	var planes []*plane
	ids := ""
	for i := range d.components {
		planes = append(planes, d.plane(&d.components[i]))
		ids += string(rune(d.components[i].id))
	}
	if len(planes) == 1 {
		out := image.NewGray(image.Rect(0, 0, d.width, d.height))
		for y := range d.height {
			copy(out.Pix[y*out.Stride:], planes[0].row(y)[:d.width])
		}
		return out
	}
	out := image.NewRGBA(image.Rect(0, 0, d.width, d.height))
	ycc := d.adobe > 0
	if len(planes) == 3 {
		ycc = d.jfif || d.adobe > 0 || d.adobe < 0 && ids != "RGB"
	}
	toRGB(out, planes, ycc)
	return out
}
