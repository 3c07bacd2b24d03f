package remote

import "vagen/internal/field"

// Limits bound the messages that are accepted from the other side. They are checked
// before memory is allocated.
type Limits struct {
	Body   int64 // bytes of a request's or a response's body
	Parts  int   // parts of a multipart body, images and data
	Pixels int   // of all images of a message together
}

// defaultLimits allows 64 MiB, 64 images and 32 megapixels. DefaultServerOptions allows
// bodies of 16 MiB only, since requests have no images.
func defaultLimits() Limits { return Limits{Body: 64 << 20, Parts: 65, Pixels: 32 << 20} }

func (l Limits) validate(c *field.Checks) {
	field.AtLeast(c, "Limits.Body", l.Body, 1)
	field.AtLeast(c, "Limits.Parts", l.Parts, 1)
	field.AtLeast(c, "Limits.Pixels", l.Pixels, 1)
}
