package view

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"net/http"
)

// pictures puts images into a report until the limit of bytes is reached.
type pictures struct {
	server http.Handler
	left   int
	cached map[string]string
}

// embed replaces the addresses of an episode's images by the images. One that cannot be
// read, or that does not fit, becomes null, and the page says so.
func (p *pictures) embed(episode map[string]any) {
	turns, _ := episode["turns"].([]any)
	for _, t := range turns {
		turn, _ := t.(map[string]any)
		list, _ := turn["images"].([]any)
		for i, address := range list {
			list[i] = nil
			if a, ok := address.(string); ok {
				if text := p.data(a); text != "" {
					list[i] = text
				}
			}
		}
	}
}

func (p *pictures) data(address string) string {
	text, ok := p.cached[address]
	if !ok {
		if raw, err := get(p.server, address, nil); err == nil && len(raw) <= p.left {
			text = "data:image/png;base64," + base64.StdEncoding.EncodeToString(smaller(raw))
		}
		p.cached[address] = text
	}
	if len(text) > p.left {
		return ""
	}
	p.left -= len(text)
	return text
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
