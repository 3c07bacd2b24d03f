package view

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"io"
	"net/url"
)

// pictures puts images into a report until the limit of bytes is reached.
type pictures struct {
	left   int
	cached map[string]string
}

// embed replaces the addresses of an episode's images by the images. One that cannot be
// read, or that does not fit, becomes null, and the page says so.
func (p *pictures) embed(r *run, a *episodeAnswer) {
	for _, t := range a.Turns {
		for i, address := range t.Images {
			if address != nil {
				t.Images[i] = p.data(r, *address)
			}
		}
	}
}

func (p *pictures) data(r *run, address string) *string {
	text, ok := p.cached[address]
	if !ok {
		if raw, err := r.readImage(address); err == nil && len(raw) <= p.left {
			text = "data:image/png;base64," + base64.StdEncoding.EncodeToString(smaller(raw))
		}
		p.cached[address] = text
	}
	if text == "" || len(text) > p.left {
		return nil
	}
	p.left -= len(text)
	return &text
}

// readImage reads the image of an imageURL.
func (r *run) readImage(address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	f, _, err := r.openImage(u.Query())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// smaller compresses an image, which runs store without compression by default. An image
// that cannot be decoded, or that has very many pixels, stays as it is.
func smaller(raw []byte) []byte {
	const maxPixels = 4 << 20
	if c, err := png.DecodeConfig(bytes.NewReader(raw)); err != nil || c.Width*c.Height > maxPixels {
		return raw
	}
	m, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	var b bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&b, m); err != nil || b.Len() >= len(raw) {
		return raw
	}
	return b.Bytes()
}
