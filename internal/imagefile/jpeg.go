package imagefile

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
)

// Segments of a JPEG that precede its pixels, with the start-of-image marker. They make
// image/jpeg return the planes of an image as they are stored: with a JFIF header, three
// planes are not converted from RGB; with Adobe's transform 0, four are not from YCCK.
const (
	asYCbCr = "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
	asCMYK  = "\xff\xd8\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
)

// headers are the facts about a JPEG that precede its pixels.
type headers struct {
	planes    int   // 0 if the file does not say
	rgb       bool  // the three planes are red, green and blue
	ycck      bool  // the first three of four planes are Y, Cb and Cr
	quartered bool  // planes 1 and 2 of four have half the width and height
	adobe     []int // where markers of Adobe's segments are
	exif      []byte
}

// readHeaders reads the segments before the first scan. The rules for the colour space are those of
// libjpeg, jdapimin.c.
func readHeaders(raw []byte) headers {
	var h headers
	jfif, transform, ids := false, -1, ""
	for at := 2; at+4 <= len(raw); {
		marker := raw[at+1]
		if raw[at] != 0xff || marker == 0 || marker == 0xff || marker == 0x01 || 0xd0 <= marker && marker <= 0xd8 {
			at++ // not a marker, or one without a length
			continue
		}
		if marker == 0xda || marker == 0xd9 { // the first scan, or the end
			break
		}
		end := at + 2 + int(raw[at+2])<<8 + int(raw[at+3])
		if end < at+4 || end > len(raw) {
			break
		}
		body := raw[at+4 : end]
		switch {
		case 0xc0 <= marker && marker <= 0xc2 && len(body) >= 9 && len(body) == 6+3*int(body[5]):
			h.planes, h.quartered = int(body[5]), body[7] == 0x22
			for k := 6; k < len(body); k += 3 {
				ids += string(body[k])
			}
		case marker == 0xe0 && bytes.HasPrefix(body, []byte("JFIF\x00")):
			jfif = true
		case marker == 0xe1 && h.exif == nil && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
			h.exif = body[6:]
		case marker == 0xee && len(body) >= 12 && bytes.HasPrefix(body, []byte("Adobe")):
			transform = int(body[11])
			h.adobe = append(h.adobe, at+1)
		}
		at = end
	}
	h.rgb = !jfif && (transform == 0 || transform < 0 && ids == "RGB")
	h.ycck = transform > 0
	return h
}

func decodeJPEG(raw []byte) (image.Image, error) {
	h := readHeaders(raw)
	var in io.Reader = bytes.NewReader(raw)
	switch h.planes {
	case 3:
		in = io.MultiReader(bytes.NewReader([]byte(asYCbCr)), bytes.NewReader(raw[2:]))
	case 4:
		raw = bytes.Clone(raw)
		for _, at := range h.adobe {
			raw[at] = 0xfe // a comment
		}
		in = io.MultiReader(bytes.NewReader([]byte(asCMYK)), bytes.NewReader(raw[2:]))
	}
	im, err := jpeg.Decode(in)
	if err != nil {
		return nil, err
	}
	switch m := im.(type) {
	case *image.Gray:
		im = turned(im, orientation(h.exif))
	case *image.YCbCr:
		im = turned(toRGB(m, nil, !h.rgb), orientation(h.exif))
	case *image.CMYK:
		planes, black := split(m, h.quartered)
		im = turned(toRGB(planes, black, h.ycck), orientation(h.exif))
	default:
		return nil, fmt.Errorf("%T: %w", im, errors.ErrUnsupported)
	}
	return im, nil
}

// split returns the four planes of an image, each value subtracted from 255 as image/jpeg does for
// Adobe's files, which store inverted ink. With quartered, planes 1 and 2 have half the width and height.
func split(m *image.CMYK, quartered bool) (planes *image.YCbCr, black []byte) {
	ratio, by := image.YCbCrSubsampleRatio444, 1
	if quartered {
		ratio, by = image.YCbCrSubsampleRatio420, 2
	}
	planes = image.NewYCbCr(m.Rect, ratio)
	black = make([]byte, len(planes.Y))
	for y := range m.Rect.Dy() {
		in := m.Pix[y*m.Stride:][:4*m.Rect.Dx()]
		at := y * planes.YStride
		for x := range m.Rect.Dx() {
			planes.Y[at+x], black[at+x] = 255-in[4*x], 255-in[4*x+3]
		}
		if y%by == 0 {
			at = y / by * planes.CStride
			for x := 0; x < m.Rect.Dx(); x += by {
				planes.Cb[at+x/by], planes.Cr[at+x/by] = 255-in[4*x+1], 255-in[4*x+2]
			}
		}
	}
	return planes, black
}
